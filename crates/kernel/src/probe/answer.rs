use crate::{Error, Result};

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// It works, and this was seen.
    Works(T),
    /// It does not.
    Refused(Unsupported),
}

/// Why something does not work on this kernel or filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The kernel's error.
    pub error: Error,
    /// The cause behind it, in a sentence.
    pub cause: String,
    /// What can be done about it.
    pub fix: Option<String>,
}

impl<T> Answer<T> {
    /// Whether it works.
    #[must_use]
    pub fn works(&self) -> bool {
        matches!(self, Self::Works(_))
    }

    /// Why not, if it does not.
    #[must_use]
    pub fn refusal(&self) -> Option<&Unsupported> {
        match self {
            Self::Works(_) => None,
            Self::Refused(refusal) => Some(refusal),
        }
    }
}

/// The error itself, where no better cause is known.
impl From<Error> for Unsupported {
    fn from(error: Error) -> Self {
        let (cause, fix) = (error.to_string(), error.hint().map(str::to_owned));
        Self { error, cause, fix }
    }
}

impl<T> From<Result<T>> for Answer<T> {
    fn from(outcome: Result<T>) -> Self {
        match outcome {
            Ok(seen) => Self::Works(seen),
            Err(error) => Self::Refused(error.into()),
        }
    }
}
