use std::fmt;

use serde::{Deserialize, Serialize};

/// A difference from what the user may expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The field that it is about.
    pub field: String,
    /// The text.
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
