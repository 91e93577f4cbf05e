use std::process::ExitCode;

use census::CensusError;
use doctor::Overall;
use ledger::LedgerError;

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

impl From<verify::Verdict> for Answer {
    fn from(verdict: verify::Verdict) -> Self {
        match verdict {
            verify::Verdict::Holds => Self::Holds,
            verify::Verdict::Violated => Self::DoesNotHold,
            verify::Verdict::Unknown => Self::Unknown,
        }
    }
}

impl From<Overall> for Answer {
    fn from(overall: Overall) -> Self {
        match overall {
            Overall::Met => Self::Holds,
            Overall::NotMet => Self::DoesNotHold,
            Overall::Unknown => Self::Unknown,
        }
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
            | LedgerError::NoPair { .. }
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

impl From<verify::Error> for Failure {
    fn from(e: verify::Error) -> Self {
        Self { answer: Answer::Unknown, message: e.to_string(), hint: e.hint() }
    }
}

impl From<oci_records::Error> for Failure {
    fn from(e: oci_records::Error) -> Self {
        Self::unknown(e.to_string()).with_hint(e.hint())
    }
}

impl From<node::Error> for Failure {
    fn from(e: node::Error) -> Self {
        match e {
            node::Error::Ledger(e) => e.into(),
            e => Self { answer: Answer::Unknown, message: e.to_string(), hint: e.hint() },
        }
    }
}
