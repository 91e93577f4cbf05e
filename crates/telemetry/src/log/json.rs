use std::fmt::Write as _;

use serde_json::Value;

use super::record::{Fields, Record};

/// The key of the event's own fields, which are optional.
const FIELDS: &str = "fields";

/// `{"time", "level", "target", "message", "fields": {…}, "pod": {…}}`, in this order: each span is an object under its
/// name. Of two spans with one name the innermost counts, and a span cannot take the place of a key of the line itself.
pub(super) fn line(record: &Record<'_>) -> String {
    let time = humantime::format_rfc3339_micros(record.time).to_string();
    let mut pairs: Vec<(&str, Value)> = vec![
        ("time", time.into()),
        ("level", record.level.as_str().into()),
        ("target", record.target.into()),
        ("message", record.message.as_str().into()),
    ];
    if !record.fields.is_empty() {
        pairs.push((FIELDS, object(&record.fields)));
    }
    for span in &record.spans {
        if span.name != FIELDS && pairs.iter().all(|(key, _)| *key != span.name) {
            pairs.push((span.name, object(&span.fields)));
        }
    }
    let pairs: Vec<String> =
        pairs.into_iter().map(|(key, value)| format!("{}:{value}", Value::from(key))).collect();
    harmless(&format!("{{{}}}", pairs.join(",")))
}

/// Characters that a terminal obeys and that JSON allows in strings, as escapes: DEL, those of C1, and those that change
/// the direction of writing. They are only in strings, because everything else of a line is ASCII.
fn harmless(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn object(fields: &Fields) -> Value {
    Value::Object(fields.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;
    use tracing_core::Level;

    use super::*;
    use crate::log::record::SpanRecord;

    fn record(message: &str) -> Record<'_> {
        Record {
            time: UNIX_EPOCH + Duration::from_micros(1_500_000),
            level: Level::WARN,
            target: "agent::worker",
            message: message.to_owned(),
            fields: Fields::default(),
            spans: vec![],
        }
    }

    fn fields(name: &'static str, value: impl Into<Value>) -> Fields {
        let mut fields = Fields::default();
        fields.set(name, value.into());
        fields
    }

    #[test]
    fn a_span_is_an_object_and_the_innermost_of_one_name_counts() {
        let span = |name, value: &str| SpanRecord { name, fields: fields("name", value) };
        let spans = vec![span("pod", "inner"), span("pod", "outer"), span("level", "x"), span("fields", "x")];
        let record = Record { spans, fields: fields("attempt", 3_u64), ..record("m") };
        let line = line(&record);
        assert!(line.starts_with(r#"{"time":"#), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "time": "1970-01-01T00:00:01.500000Z", "level": "WARN", "target": "agent::worker",
                "message": "m", "fields": {"attempt": 3}, "pod": {"name": "inner"},
            })
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let message = "\u{1b}[31m \u{7f} \u{9b}2J \u{202e} ä";
        let line = line(&record(message));
        assert!(line.contains(r"\u001b[31m \u007f \u009b2J \u202e ä"), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], message);
    }

    proptest! {
        #[test]
        fn every_message_and_field_is_read_back_from_one_line(message: String, value: String) {
            let record = Record { fields: fields("image", value.clone()), ..record(&message) };
            let line = line(&record);
            prop_assert!(!line.contains('\n') && !line.chars().any(char::is_control));
            let read: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read["message"].as_str(), Some(message.as_str()));
            prop_assert_eq!(read["fields"]["image"].as_str(), Some(value.as_str()));
        }
    }
}
