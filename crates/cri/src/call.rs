//! One call of a runtime: its deadline, and why it failed.

use std::future::Future;
use std::time::Duration;

use tonic::{Code, Response, Status};

/// Why a call of a runtime brought no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The runtime answered with an error.
    #[error("the runtime refused {call}: {message}")]
    Refused {
        /// The call, as CRI names it.
        call: &'static str,
        /// What kind of error.
        code: Code,
        /// In the runtime's words.
        message: String,
    },
    /// The runtime did not answer before the deadline.
    #[error("the runtime gave no answer to {call} within {seconds} s")]
    DeadlineExceeded {
        /// The call, as CRI names it.
        call: &'static str,
        /// How long it was given.
        seconds: u64,
    },
}

impl CallError {
    /// The error of a call that the runtime answered so.
    #[must_use]
    pub fn refused(call: &'static str, status: &Status) -> Self {
        Self::Refused { call, code: status.code(), message: status.message().to_owned() }
    }

    /// The call that failed, as CRI names it.
    #[must_use]
    pub const fn call(&self) -> &'static str {
        match self {
            Self::Refused { call, .. } | Self::DeadlineExceeded { call, .. } => call,
        }
    }

    /// Whether the runtime says that it has no such sandbox, container or image.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: Code::NotFound, .. })
    }

    /// Whether the runtime says that the object is in a state in which it cannot do this.
    #[must_use]
    pub fn is_failed_precondition(&self) -> bool {
        matches!(self, Self::Refused { code: Code::FailedPrecondition, .. })
    }

    /// Whether the connection broke, or there was none: the runtime may not have got the call.
    #[must_use]
    pub(crate) const fn is_of_transport(&self) -> bool {
        matches!(
            self,
            Self::Refused { code: Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Internal, .. }
        )
    }

    /// What to do about it; `None` where only the runtime's own words tell.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused { .. } => None,
            Self::DeadlineExceeded { .. } => Some("look into the container runtime's log: it hangs"),
        }
    }
}

/// The result of a call, if it comes before the deadline.
///
/// Dropping `answer` at the deadline cancels the call on this side; the runtime may execute it all the same, so that
/// the caller learns the outcome from the runtime's lists, not from this error.
///
/// # Errors
/// If the runtime answers with an error, or not in time.
pub async fn within<T>(
    deadline: Duration,
    call: &'static str,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(deadline, answer).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(CallError::refused(call, &status)),
        Err(_) => Err(CallError::DeadlineExceeded { call, seconds: deadline.as_secs() }),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_with_its_result_its_error_or_its_deadline() {
        let time = Duration::from_secs(7);
        assert_eq!(within(time, "Version", ready(Ok(Response::new(1)))).await, Ok(1));
        let gone = Status::not_found("no container x");
        let refused = within::<()>(time, "ContainerStatus", ready(Err(gone))).await.unwrap_err();
        assert!(refused.is_not_found());
        assert_eq!(refused.to_string(), "the runtime refused ContainerStatus: no container x");
        let silent = within::<()>(time, "Status", pending()).await.unwrap_err();
        assert_eq!(silent, CallError::DeadlineExceeded { call: "Status", seconds: 7 });
        assert!(!silent.is_not_found() && silent.call() == "Status" && silent.hint().is_some());
    }
}
