//! Values by the types of their fields: from a file's values, and from text of a flag.

use super::field::Kind;
use super::tree::{Entry, Node, Value};
use super::{GoDuration, Origin, Problem, ProblemKind};

/// A value that does not have its field's type, or that the type does not allow.
pub(super) struct Mismatch {
    is_type: bool,
    cause: String,
    hint: String,
}

impl Mismatch {
    fn wrong_type(kind: Kind, value: &Value) -> Self {
        let hint = match (kind, value) {
            (Kind::Text | Kind::OneOf(_) | Kind::Path, Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                "write it in quotes".to_owned()
            }
            (Kind::Duration, Value::Int(_)) => "add a unit, such as 10s, and quotes in JSON".to_owned(),
            _ => format!("write {}", kind.name()),
        };
        Self { is_type: true, cause: format!("it is {}, not {}", word_for(value), kind.name()), hint }
    }

    /// The problem of the field that has the value.
    pub(super) fn at(self, at: Origin, field: String) -> Problem {
        let kind = if self.is_type { ProblemKind::WrongType } else { ProblemKind::Invalid };
        Problem { at, field, kind, cause: self.cause, hint: self.hint }
    }

    fn invalid(cause: String, hint: &str) -> Self {
        Self { is_type: false, cause, hint: hint.to_owned() }
    }
}

/// The value as its field holds it. Objects are not for this function.
pub(super) fn converted(kind: Kind, value: Value) -> Result<Value, Mismatch> {
    match (kind, value) {
        (Kind::Bool, value @ Value::Bool(_)) => Ok(value),
        (Kind::Int32, Value::Int(number)) => int32(number),
        (Kind::Int64, value @ Value::Int(_)) | (Kind::Float, value @ (Value::Int(_) | Value::Float(_))) => {
            Ok(value)
        }
        (Kind::Text | Kind::Path, value @ Value::Text(_)) => Ok(value),
        (Kind::OneOf(allowed), Value::Text(text)) => one_of(allowed, text),
        (Kind::Duration | Kind::DurationOrNanoseconds, Value::Text(text)) => duration(&text),
        (Kind::Duration, Value::Int(0)) => Ok(Value::Duration(GoDuration::default())),
        (Kind::DurationOrNanoseconds, Value::Int(number)) => {
            Ok(Value::Duration(GoDuration::from_nanoseconds(number)))
        }
        (Kind::Quantity, Value::Int(number)) => Ok(Value::Text(number.to_string())),
        (Kind::Quantity, Value::Text(text)) => match text.parse::<types::Quantity>() {
            Ok(_) => Ok(Value::Text(text)),
            Err(e) => Err(Mismatch::invalid(e.to_string(), "write a quantity such as 10Mi")),
        },
        (Kind::TextList, Value::List(items)) => items_of(Kind::Text, items).map(Value::List),
        (Kind::IntList, Value::List(items)) => items_of(Kind::Int32, items).map(Value::List),
        (Kind::TextMap, Value::Map(entries)) => entries_of(Kind::Text, entries),
        (Kind::BoolMap, Value::Map(entries)) => entries_of(Kind::Bool, entries),
        (Kind::TextListMap, Value::Map(entries)) => entries_of(Kind::TextList, entries),
        (kind, value) => Err(Mismatch::wrong_type(kind, &value)),
    }
}

fn int32(number: i64) -> Result<Value, Mismatch> {
    match i32::try_from(number) {
        Ok(number) => Ok(Value::Int(i64::from(number))),
        Err(_) => Err(Mismatch::invalid(
            format!("{number} does not fit in 32 bits"),
            "use a number from -2147483648 to 2147483647",
        )),
    }
}

fn one_of(allowed: &[&str], text: String) -> Result<Value, Mismatch> {
    if text.is_empty() || allowed.contains(&text.as_str()) {
        return Ok(Value::Text(text));
    }
    Err(Mismatch::invalid(
        format!("{text:?} is none of its values"),
        &format!("use one of {}", allowed.join(", ")),
    ))
}

fn duration(text: &str) -> Result<Value, Mismatch> {
    let read = text.parse().map(Value::Duration);
    read.map_err(|e: types::NotADuration| Mismatch::invalid(e.to_string(), "write it as 10s or 1m30s"))
}

fn items_of(kind: Kind, items: Vec<Node>) -> Result<Vec<Node>, Mismatch> {
    let convert = |node: Node| Ok(Node { value: converted(kind, node.value)?, at: node.at });
    items.into_iter().map(convert).collect()
}

/// Entries without a value stay: in a drop-in they remove a key.
fn entries_of(kind: Kind, entries: Vec<Entry>) -> Result<Value, Mismatch> {
    let convert = |entry: Entry| {
        let Entry { name, at, node } = entry;
        let value = match node.value {
            Value::Null => Value::Null,
            value => converted(kind, value)
                .map_err(|mismatch| Mismatch { cause: format!("{name}: {}", mismatch.cause), ..mismatch })?,
        };
        Ok(Entry { name, at, node: Node { at: node.at, value } })
    };
    entries.into_iter().map(convert).collect::<Result<_, Mismatch>>().map(Value::Map)
}

fn word_for(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(on) => on.to_string(),
        Value::Int(number) => format!("the number {number}"),
        Value::Float(number) => format!("the number {number}"),
        Value::Text(text) => format!("the text {:?}", text.chars().take(40).collect::<String>()),
        Value::Duration(duration) => format!("the duration {duration}"),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}

/// The value that a flag sets by this text, or that a default has. `separator` stands between key and value of maps.
pub(super) fn from_text(kind: Kind, text: &str, separator: char) -> Result<Value, Mismatch> {
    let value = match kind {
        Kind::Bool => bool_from(text).map_or_else(|| Value::Text(text.to_owned()), Value::Bool),
        Kind::Int32 | Kind::Int64 => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Int),
        Kind::Float => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Float),
        Kind::TextList => {
            Value::List(words(text).map(|word| unplaced(Value::Text(word.to_owned()))).collect())
        }
        Kind::TextMap | Kind::BoolMap => return map_from(kind, text, separator),
        _ => Value::Text(text.to_owned()),
    };
    converted(kind, value)
}

/// As Go's strconv.ParseBool.
fn bool_from(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn unplaced(value: Value) -> Node {
    Node { at: Origin::Default, value }
}

fn map_from(kind: Kind, text: &str, separator: char) -> Result<Value, Mismatch> {
    let item = if kind == Kind::BoolMap { Kind::Bool } else { Kind::Text };
    let entry = |word: &str| {
        let (name, value) = word.split_once(separator).ok_or_else(|| Mismatch {
            is_type: true,
            cause: format!("{word:?} is not KEY{separator}VALUE"),
            hint: format!("separate pairs KEY{separator}VALUE by commas"),
        })?;
        let node = unplaced(from_text(item, value.trim(), separator)?);
        Ok(Entry { name: name.trim().to_owned(), at: Origin::Default, node })
    };
    words(text).map(entry).collect::<Result<_, Mismatch>>().map(Value::Map)
}
