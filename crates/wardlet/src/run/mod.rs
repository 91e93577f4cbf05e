//! `wardlet run`, and what `ps`, `logs`, `exec` and `stop` need.
//!
//! - [`admit`]: admission of the pods in manifests, with the features that the runtime reports.
//! - [`pods`]: runs all pods from their start to their end; [`supervisor`]: a task for each pod.
//! - [`signals`]: signals that stop the pods.
//! - [`detach`]: `run --detach`, by a process in the background.
//! - [`find`]: recorded pods by name, `namespace/name` or UID.

pub(crate) mod admit;
pub(crate) mod detach;
pub(crate) mod find;
pub(crate) mod pods;
pub(crate) mod signals;
pub(crate) mod supervisor;

use agent::Error;
use runtime::connect::ConnectError;

use crate::failure::Failure;

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let message = e.to_string();
        let failure = match e {
            Error::Managed { .. }
            | Error::Other { .. }
            | Error::OtherBlock { .. }
            | Error::UidTaken { .. }
            | Error::NotAdmitted { .. }
            | Error::Immutable { .. }
            | Error::Admission(_)
            | Error::Volumes(_) => Self::refused(message),
            _ => Self::unknown(message),
        };
        e.hint().into_iter().fold(failure, Self::with_hint)
    }
}

impl From<cri::CallError> for Failure {
    fn from(e: cri::CallError) -> Self {
        let failure = Self::unknown(e.to_string());
        e.hint().into_iter().fold(failure, Self::with_hint)
    }
}

impl From<cri::Error> for Failure {
    fn from(e: cri::Error) -> Self {
        Self::unknown(e.to_string()).with_hint(e.hint())
    }
}

impl From<ConnectError> for Failure {
    fn from(e: ConnectError) -> Self {
        let failure = match &e {
            ConnectError::Runtime(runtime::Error::Closed { .. }) => Self::refused(e.to_string()),
            _ => Self::unknown(e.to_string()),
        };
        e.hint().into_iter().fold(failure, Self::with_hint)
    }
}

/// A tokio runtime with two worker threads.
///
/// # Errors
/// If a thread cannot be spawned.
pub(crate) fn threads() -> Result<tokio::runtime::Runtime, Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.map_err(|e| Failure::unknown(format!("cannot start threads: {e}")))
}
