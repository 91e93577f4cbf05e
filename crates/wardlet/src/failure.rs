use std::process::ExitCode;

use census::CensusError;
use census::source::SourceError;
use ids::pool::PoolError;
use ledger::LedgerError;
use settings::SettingsError;

/// What a command found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What was asked holds, or was done.
    Holds,
    /// It does not hold, or something of it was refused.
    DoesNotHold,
    /// It could not be found out.
    Unknown,
}

impl Answer {
    /// The exit code for it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::DoesNotHold => 1,
            Self::Unknown => 2,
        }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        Self::from(answer.code())
    }
}

/// Why a command has no answer: one line, and the way out where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    answer: Answer,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// The answer is no.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { answer: Answer::DoesNotHold, message: message.into(), hint: None }
    }

    /// The question was wrong, or something stood in the way of an answer.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self { answer: Answer::Unknown, message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn answer(&self) -> Answer {
        self.answer
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        self.answer.into()
    }
}

impl From<LedgerError> for Failure {
    fn from(e: LedgerError) -> Self {
        let answer = match &e {
            LedgerError::Lease { .. }
            | LedgerError::OtherLength { .. }
            | LedgerError::Joined { .. }
            | LedgerError::OtherSort { .. }
            | LedgerError::HasMembers { .. }
            | LedgerError::Adoption { .. }
            | LedgerError::NotPinned { .. } => Answer::DoesNotHold,
            _ => Answer::Unknown,
        };
        Self { answer, message: e.to_string(), hint: e.hint() }
    }
}

impl From<CensusError> for Failure {
    fn from(e: CensusError) -> Self {
        Self::unknown(e.to_string()).with_hint(e.hint())
    }
}

impl From<SourceError> for Failure {
    fn from(e: SourceError) -> Self {
        Self::unknown(e.to_string()).with_hint(e.hint())
    }
}

impl From<PoolError> for Failure {
    fn from(e: PoolError) -> Self {
        Self::unknown(e.to_string()).with_hint(e.hint())
    }
}

impl From<SettingsError> for Failure {
    fn from(e: SettingsError) -> Self {
        let hint = e.hint();
        let failure = Self::unknown(e.to_string());
        hint.map_or_else(|| failure.clone(), |hint| failure.clone().with_hint(hint))
    }
}
