use tracing_core::Level;

use super::POD;
use super::record::{Fields, Record, crate_of};

/// What stands before the messages of a crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// These words, then a colon.
    Words(&'static str),
    /// `namespace/name` of the pod whose span the event is in, then a colon.
    Pod,
}

/// Lines for people: `warning: ` or `error: ` by level, the prefix of the crate, the message. The field `hint` follows
/// after an empty line. Other fields are left out, because messages name what they are about; JSON has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    prefixes: Vec<(&'static str, Prefix)>,
}

impl Text {
    /// Sets what stands before the messages of a crate.
    #[must_use]
    pub fn with(mut self, name: &'static str, prefix: Prefix) -> Self {
        self.prefixes.retain(|(known, _)| *known != name);
        self.prefixes.push((name, prefix));
        self
    }

    pub(super) fn line(&self, record: &Record<'_>) -> String {
        let level = match record.level {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            Level::DEBUG => "debug: ",
            Level::TRACE => "trace: ",
            _ => "",
        };
        let prefix = self.prefix(record).map(|prefix| format!("{prefix}: ")).unwrap_or_default();
        let message = one_line(&record.message);
        let hint = record.fields.text("hint").map(|hint| format!("\n\nhint: {}", one_line(hint)));
        format!("{level}{prefix}{message}{}", hint.unwrap_or_default())
    }

    fn prefix(&self, record: &Record<'_>) -> Option<String> {
        let of = crate_of(record.target);
        match self.prefixes.iter().find(|(name, _)| *name == of)?.1 {
            Prefix::Words(words) => Some(words.to_owned()),
            Prefix::Pod => pod(&record.span(POD)?.fields),
        }
    }
}

fn pod(fields: &Fields) -> Option<String> {
    Some(format!("{}/{}", fields.text("namespace")?, fields.text("name")?))
}

/// What other programs and files say may have several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;
    use crate::log::record::SpanRecord;

    fn record<'a>(level: Level, target: &'a str, message: &str) -> Record<'a> {
        let mut fields = Fields::default();
        fields.set("namespace", "shop".into());
        fields.set("name", "web".into());
        let spans = vec![SpanRecord { name: POD, fields }];
        let message = message.to_owned();
        Record { time: UNIX_EPOCH, level, target, message, fields: Fields::default(), spans }
    }

    fn text() -> Text {
        Text::default().with("agent", Prefix::Pod).with("runtime", Prefix::Words("wardlet cri"))
    }

    #[test]
    fn a_line_has_level_prefix_and_message() {
        let line = |level, target, message| text().line(&record(level, target, message));
        assert_eq!(line(Level::INFO, "agent::worker", "started app"), "shop/web: started app");
        assert_eq!(line(Level::WARN, "agent", "a\n  b"), "warning: shop/web: a b");
        assert_eq!(line(Level::INFO, "runtime::server", "serving"), "wardlet cri: serving");
        assert_eq!(line(Level::ERROR, "wardlet", "no root"), "error: no root");
        assert_eq!(line(Level::DEBUG, "wardlet", "x"), "debug: x");
    }

    #[test]
    fn an_event_outside_of_every_pod_has_no_pod_before_it() {
        let record = Record { spans: vec![], ..record(Level::INFO, "agent", "the runtime answers") };
        assert_eq!(text().line(&record), "the runtime answers");
    }

    #[test]
    fn a_hint_follows_after_an_empty_line() {
        let mut record = record(Level::ERROR, "wardlet", "it needs root");
        record.fields.set("hint", "run this\nas root".into());
        assert_eq!(text().line(&record), "error: it needs root\n\nhint: run this as root");
    }

    proptest! {
        #[test]
        fn a_message_cannot_begin_a_line_of_its_own(message: String) {
            let line = text().line(&record(Level::WARN, "agent", &message));
            prop_assert!(line.starts_with("warning: shop/web: "));
            prop_assert_eq!(line.lines().count(), 1);
        }
    }
}
