use std::fmt;

use serde::{Deserialize, Serialize};

/// Why somebody does not start, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[error("{field}: {cause}")]
pub struct Refusal {
    /// The field that cannot be honoured.
    pub field: String,
    /// Why not.
    pub cause: String,
    /// The way out.
    pub hint: String,
}

impl Refusal {
    pub(crate) fn new(field: impl fmt::Display, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field: field.to_string(), cause: cause.into(), hint: hint.into() }
    }
}

/// What is done, but not quite as one may expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The field that it is about.
    pub field: String,
    /// What is to be known.
    pub text: String,
}

impl Warning {
    pub(crate) fn new(field: impl fmt::Display, text: impl Into<String>) -> Self {
        Self { field: field.to_string(), text: text.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.text)
    }
}
