//! JSON to trees, by the letter of RFC 8259, and no key twice.

use super::keys::duplicate;
use super::{MAX_DEPTH, Stop};
use crate::place::Position;
use crate::tree::{Key, Node, Value};

/// All values of a text, one after the other.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, Stop> {
    let mut reader = Reader { rest: text, at: Position::START, depth: 0, values: 0 };
    let mut all = Vec::new();
    reader.skip_space();
    while !reader.rest.is_empty() {
        all.push(reader.value()?);
        reader.skip_space();
    }
    Ok(all)
}

struct Reader<'a> {
    rest: &'a str,
    at: Position,
    depth: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        if c == '\n' {
            self.at = Position { line: self.at.line.saturating_add(1), column: 1 };
        } else {
            self.at.column = self.at.column.saturating_add(1);
        }
        Some(c)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
    }

    fn stop(&self, words: &str) -> Stop {
        Stop::syntax(self.at, words)
    }

    fn expect(&mut self, wanted: char) -> Result<(), Stop> {
        if self.peek() == Some(wanted) {
            self.next();
            return Ok(());
        }
        Err(self.stop(&format!("expected `{wanted}`")))
    }

    fn value(&mut self) -> Result<Node, Stop> {
        let at = self.at;
        Stop::count(&mut self.values, at)?;
        let value = match self.peek() {
            Some('{') => self.nested(Self::object)?,
            Some('[') => self.nested(Self::list)?,
            Some('"') => Value::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            Some('t') => self.word("true", Value::Bool(true))?,
            Some('f') => self.word("false", Value::Bool(false))?,
            Some('n') => self.word("null", Value::Null)?,
            _ => return Err(self.stop("expected a value")),
        };
        Ok(Node { at, value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Stop>) -> Result<Value, Stop> {
        if self.depth >= MAX_DEPTH {
            return Err(Stop::too_deep(self.at));
        }
        self.depth += 1;
        self.next();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Stop> {
        if !self.rest.starts_with(word) {
            return Err(self.stop("expected a value"));
        }
        word.chars().for_each(|_| {
            self.next();
        });
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, Stop> {
        let mut entries = Vec::new();
        self.skip_space();
        if self.peek() == Some('}') {
            self.next();
            return Ok(Value::Map(entries));
        }
        loop {
            self.skip_space();
            let key = Key { at: self.at, name: self.text()?.into() };
            self.skip_space();
            self.expect(':')?;
            self.skip_space();
            entries.push((key, self.value()?));
            if self.is_last('}')? {
                break;
            }
        }
        duplicate(&entries).map_or(Ok(Value::Map(entries)), Err)
    }

    fn list(&mut self) -> Result<Value, Stop> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(']') {
            self.next();
            return Ok(Value::List(items));
        }
        loop {
            self.skip_space();
            items.push(self.value()?);
            if self.is_last(']')? {
                return Ok(Value::List(items));
            }
        }
    }

    fn is_last(&mut self, end: char) -> Result<bool, Stop> {
        self.skip_space();
        match self.peek() {
            Some(',') => {
                self.next();
                Ok(false)
            }
            Some(c) if c == end => {
                self.next();
                Ok(true)
            }
            _ => Err(self.stop(&format!("expected `,` or `{end}`"))),
        }
    }

    fn text(&mut self) -> Result<String, Stop> {
        self.expect('"')?;
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(c) if c >= ' ' => text.push(c),
                _ => return Err(Stop::syntax(at, "a string must end on its line")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Stop> {
        let at = self.at;
        match self.next() {
            Some(c @ ('"' | '\\' | '/')) => Ok(c),
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some('u') => self.unicode(at),
            _ => Err(Stop::syntax(at, "JSON has no such escape")),
        }
    }

    /// `\uXXXX`, or two that stand for one character. Half of such a pair is no text.
    fn unicode(&mut self, at: Position) -> Result<char, Stop> {
        let broken = || Stop::syntax(at, "a \\u escape that is no character");
        let first = self.four_digits().ok_or_else(broken)?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) && self.rest.starts_with("\\u") {
            self.next();
            self.next();
            units.push(self.four_digits().ok_or_else(broken)?);
        }
        let mut decoded = char::decode_utf16(units);
        match (decoded.next(), decoded.next()) {
            (Some(Ok(c)), None) => Ok(c),
            _ => Err(broken()),
        }
    }

    fn four_digits(&mut self) -> Option<u16> {
        let digits: &'a str = self.rest.get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        (0..4).for_each(|_| {
            self.next();
        });
        u16::from_str_radix(digits, 16).ok()
    }

    fn number(&mut self) -> Result<Value, Stop> {
        let at = self.at;
        let is_part = |c: char| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let text: &'a str = self.rest.get(..end).unwrap_or_default();
        text.chars().for_each(|_| {
            self.next();
        });
        let float = serde_json::from_str::<f64>(text).map_err(|_| Stop::syntax(at, "no number of JSON"))?;
        Ok(match (text.parse::<i64>(), text.parse::<u64>()) {
            (Ok(n), _) => Value::Int(n),
            (_, Ok(n)) => Value::Unsigned(n),
            _ => Value::Float(float),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Problem;

    #[test]
    fn json_is_read_with_places() {
        let all =
            documents("{\"a\": [1, -2.5, true, null, \"x\\n\\u00e4\\ud83d\\ude00\"],\n \"b\": {}}").unwrap();
        let Value::List(items) = &all[0].get("a").unwrap().value else { panic!() };
        assert_eq!(items[4].value, Value::Text("x\nä😀".into()));
        assert_eq!(items[1].value, Value::Float(-2.5));
        assert_eq!(all[0].get("b").unwrap().at, Position { line: 2, column: 7 });
    }

    #[test]
    fn a_key_that_is_there_twice_is_refused() {
        let stop = documents("{\"spec\": {\"hostUsers\": false,\n\"hostUsers\": true}}").unwrap_err();
        assert!(
            matches!(&stop.problem, Problem::DuplicateKey { key, first } if key == "hostUsers" && first.line == 1)
        );
        assert_eq!(stop.at.line, 2);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let bad = [
            "{",
            "{\"a\"}",
            "{\"a\":1,}",
            "[1,]",
            "[01]",
            "[1.]",
            "[+1]",
            "[\"\n\"]",
            "[\"\\ud800\"]",
            "[\"\\x\"]",
            "{\"a\":1",
            "[tru]",
            "{a:1}",
            "[\"\\u12\"]",
        ];
        for text in bad {
            assert!(documents(text).is_err(), "{text}");
        }
        assert!(documents(&"[".repeat(100_000)).is_err());
    }
}
