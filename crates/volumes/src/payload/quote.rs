use std::collections::BTreeMap;
use std::fmt::Write;

/// Labels or annotations as a file shows them: `key="value"`, a line each, by key, no newline at the
/// end. Values are quoted as Go quotes them, which is what readers of these files parse.
pub(crate) fn lines(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}

fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    value.chars().for_each(|c| push(&mut text, c));
    text.push('"');
    text
}

fn push(text: &mut String, c: char) {
    let short = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{07}' => "\\a",
        '\u{08}' => "\\b",
        '\u{0c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{0b}' => "\\v",
        _ => "",
    };
    let code = u32::from(c);
    // Writing to a string cannot fail.
    let _ = match code {
        _ if !short.is_empty() => text.write_str(short),
        _ if is_print(c) => text.write_char(c),
        0..=0x1f | 0x7f => write!(text, "\\x{code:02x}"),
        0x80..=0xffff => write!(text, "\\u{code:04x}"),
        _ => write!(text, "\\U{code:08x}"),
    };
}

/// Whether Go prints it as it is: letters, marks, numbers, punctuation, symbols, and the plain space.
/// The standard library has the same table for its own quoting, where a mark at the very beginning is
/// the one exception; so the character is asked about in second place. (It knows Unicode 17, Go still 15:
/// characters that are new since then are escaped there and printed here.)
fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let mut second = String::from("a");
    second.push(c);
    second.escape_debug().eq(second.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go 1.26's strconv.Quote answers.
    #[test]
    fn values_are_quoted_as_go_does() {
        for (value, quote) in [
            ("plain text", r#""plain text""#),
            ("it's \"so\" \\ here", r#""it's \"so\" \\ here""#),
            ("a\nb\tc\r\u{07}\u{08}\u{0c}\u{0b}", r#""a\nb\tc\r\a\b\f\v""#),
            ("\u{00}\u{1b}\u{7f}", r#""\x00\x1b\x7f""#),
            ("grün 日本 🙂", "\"grün 日本 🙂\""),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{301}", "\"\u{301}\""),
            ("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#),
            ("\u{ad}\u{e000}\u{10ffff}", r#""\u00ad\ue000\U0010ffff""#),
            ("\u{85}", r#""\u0085""#),
        ] {
            assert_eq!(quoted(value), quote);
        }
    }

    #[test]
    fn keys_are_sorted_and_the_last_line_does_not_end() {
        let map = BTreeMap::from([("b", "2"), ("a", "1"), ("a.b/c", "")]);
        let map = map.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        assert_eq!(lines(&map), "a=\"1\"\na.b/c=\"\"\nb=\"2\"");
        assert_eq!(lines(&BTreeMap::new()), "");
    }
}
