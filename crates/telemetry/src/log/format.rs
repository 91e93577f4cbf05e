use super::json;
use super::record::Record;
use super::text::Text;

/// How an event becomes a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text(Text),
    /// For programs: one JSON object a line.
    Json,
}

impl Format {
    /// The event without the newline at its end. JSON never has a newline inside; text has one only before a hint.
    #[must_use]
    pub fn line(&self, record: &Record<'_>) -> String {
        match self {
            Self::Text(text) => text.line(record),
            Self::Json => json::line(record),
        }
    }
}
