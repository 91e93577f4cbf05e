//! Errors in a log that was written before, in either format.

use serde_json::Value;

/// An error in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedError {
    /// Its message.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl LoggedError {
    /// The last error in the log.
    #[must_use]
    pub fn last(log: &str) -> Option<Self> {
        let last =
            |start: &str| log.lines().rev().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
        let in_text = || Some(Self { message: last("error: ")?, hint: last("hint: ") });
        log.lines().rev().find_map(Self::of_json).or_else(in_text)
    }

    /// Whether a line is of an error.
    #[must_use]
    pub fn is_at(line: &str) -> bool {
        line.starts_with("error:") || line.starts_with("hint:") || Self::of_json(line).is_some()
    }

    fn of_json(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let is_error = line.get("level")?.as_str() == Some("ERROR");
        let message = line.get("message").and_then(text).filter(|_| is_error)?;
        Some(Self { message, hint: line.get("fields").and_then(|fields| fields.get("hint")).and_then(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_found_in_both_formats() {
        let json = r#"{"level":"ERROR","message":"no root","fields":{"hint":"be root"}}"#;
        let expected = LoggedError { message: "no root".into(), hint: Some("be root".into()) };
        assert_eq!(LoggedError::last(json), Some(expected.clone()));
        assert_eq!(LoggedError::last("error: x\nerror: no root\n\nhint: be root\nmore"), Some(expected));
        for other in [r#"{"level":"WARN","message":"x"}"#, "warning: error: x", "1", ""] {
            assert_eq!(LoggedError::last(other), None, "{other}");
            assert!(!LoggedError::is_at(other), "{other}");
        }
        assert!(LoggedError::is_at(json) && LoggedError::is_at("hint: be root"));
    }
}
