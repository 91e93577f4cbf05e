use std::fmt;
use std::sync::Arc;

use crate::place::Position;

/// Something that is wrong in a manifest, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// Where in the file.
    pub at: Position,
    /// The field, `spec.containers[0].image`; empty when it is about the text as a whole.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.at)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.problem.fmt(f)
    }
}

impl Finding {
    /// The way out, where there is one to name.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.problem.hint()
    }
}

/// No more than this is said of one object: a text made to be wrong in a million places must not take
/// a million suggestions.
pub(crate) const MAX_FINDINGS: usize = 100;

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The bytes are no text.
    #[error("not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// The first byte that is none.
        offset: usize,
    },
    /// A character that YAML does not allow, or that YAML readers take for different things.
    #[error("the character U+{code:04X} is not allowed here")]
    Character {
        /// Its number.
        code: u32,
    },
    /// The text is neither YAML nor JSON.
    #[error("{0}")]
    Syntax(String),
    /// More than we read.
    #[error("{what}: more than {limit}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much is read.
        limit: usize,
    },
    /// A key that a mapping has twice.
    #[error("key {key} is there twice, first on line {}", first.line)]
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it is first.
        first: Position,
    },
    /// A key that comes before a merge key which has it too.
    #[error("key {key} is set again by the merge key `<<` after it")]
    MergedOver {
        /// The key.
        key: String,
    },
    /// A field that the API does not have at this place.
    #[error("unknown field {name}")]
    UnknownField {
        /// Its name.
        name: String,
        /// The field of that place that it looks like.
        nearest: Option<String>,
        /// Where in the object a field of that name belongs.
        belongs: Vec<String>,
    },
    /// A value of another type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What the field takes.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Nothing, where something is needed.
    #[error("required, but missing or empty")]
    Required,
    /// A value that breaks a rule.
    #[error("{value}: {rule}")]
    Invalid {
        /// The value.
        value: String,
        /// The rule.
        rule: String,
    },
    /// A field that may not be set beside others.
    #[error("not allowed: {rule}")]
    Forbidden {
        /// The rule.
        rule: String,
    },
    /// None of the values that the field takes.
    #[error("{value} is not one of {}", allowed.join(", "))]
    NotSupported {
        /// The value.
        value: String,
        /// The values it takes.
        allowed: Vec<&'static str>,
    },
    /// A value that may be there only once.
    #[error("{value} is there twice")]
    Duplicate {
        /// The value.
        value: String,
    },
    /// A name that nothing has.
    #[error("there is no {what} named {name}")]
    NotFound {
        /// What is missing.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

impl Problem {
    pub(crate) fn invalid(value: impl fmt::Display, rule: impl Into<String>) -> Self {
        Self::Invalid { value: value.to_string(), rule: rule.into() }
    }

    pub(crate) fn too_many() -> Self {
        Self::TooMuch { what: "faults in one object", limit: MAX_FINDINGS }
    }

    pub(crate) fn forbidden(rule: impl Into<String>) -> Self {
        Self::Forbidden { rule: rule.into() }
    }

    /// The way out, where there is one to name.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotUtf8 { .. } => Some("save the file as UTF-8".into()),
            Self::MergedOver { .. } => {
                Some("put `<<` first: readers differ on which of the two values holds".into())
            }
            Self::UnknownField { nearest: Some(name), .. } => Some(format!("did you mean {name}?")),
            Self::UnknownField { belongs, .. } if !belongs.is_empty() => {
                Some(format!("it belongs to {}", belongs.join(" or ")))
            }
            Self::WrongType { expected, found } => quotes_hint(expected, found),
            _ => None,
        }
    }
}

fn quotes_hint(expected: &str, found: &str) -> Option<String> {
    let bare = found.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"'));
    let takes_number = expected.starts_with('i') || expected.starts_with('u');
    match bare {
        Some("true" | "false") if expected == "a boolean" => Some("write it without quotes".into()),
        Some(digits) if takes_number && digits.parse::<i64>().is_ok() => {
            Some("write it without quotes".into())
        }
        None if expected == "a string" && !found.starts_with("a ") => Some("put it in quotes".into()),
        _ => None,
    }
}
