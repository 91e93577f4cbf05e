use std::time::SystemTime;

use serde_json::Value;
use tracing_core::Level;

/// Named values in the order in which they were recorded. A value that is recorded again replaces the first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    /// Adds or replaces a value.
    pub fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// The value of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The text of this name; `None` for a value of another kind.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A span that an event is in.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanRecord {
    /// Its name, such as `pod`.
    pub name: &'static str,
    /// Its fields.
    pub fields: Fields,
}

/// An event that passed the filter, ready to be formatted.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    /// When it was emitted.
    pub time: SystemTime,
    /// Its level.
    pub level: Level,
    /// Where it comes from: a module path, unless the event names a target.
    pub target: &'a str,
    /// Its message.
    pub message: String,
    /// Its other fields.
    pub fields: Fields,
    /// The spans that it is in, the innermost first.
    pub spans: Vec<SpanRecord>,
}

impl Record<'_> {
    /// The innermost span of this name.
    #[must_use]
    pub fn span(&self, name: &str) -> Option<&SpanRecord> {
        self.spans.iter().find(|span| span.name == name)
    }
}

/// The crate that a target is in.
pub(super) fn crate_of(target: &str) -> &str {
    target.split("::").next().unwrap_or(target)
}
