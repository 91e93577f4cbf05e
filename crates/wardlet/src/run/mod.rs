//! Pods run here and now, and those that run looked at.
//!
//! - [`admit`]: manifests to pods that may run, by the runtime's own word.
//! - [`runtime`]: the runtime that was named, or the built-in one.
//! - [`pods`]: all pods from their start to their end; [`tending`]: each of them; [`follow`]: what they print.
//! - [`calls`]: what is asked of runtime and kernel, written down.
//! - [`changes`], [`signals`]: what happens meanwhile.
//! - [`detach`]: the same by a process that stays when this one ends.
//! - [`terminal`]: ours, lent to a command in a container.
//! - [`find`]: pods by what people call them.

pub(crate) mod admit;
pub(crate) mod calls;
pub(crate) mod changes;
pub(crate) mod detach;
pub(crate) mod find;
pub(crate) mod follow;
pub(crate) mod pods;
pub(crate) mod runtime;
pub(crate) mod signals;
pub(crate) mod tending;
pub(crate) mod terminal;
pub(crate) mod view;

use agent::Error;

use crate::failure::Failure;

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let message = e.to_string();
        let failure = match e {
            Error::Tended { .. }
            | Error::Other { .. }
            | Error::OtherBlock { .. }
            | Error::NotRun { .. }
            | Error::Unfit { .. }
            | Error::Volumes(_) => Self::refused(message),
            _ => Self::unknown(message),
        };
        match e.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// Threads for everything that waits.
pub(crate) fn threads() -> Result<tokio::runtime::Runtime, Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.map_err(|e| Failure::unknown(format!("cannot start threads: {e}")))
}

/// Milliseconds since 1970 as seconds.
pub(crate) fn seconds(millis: u64) -> u64 {
    millis / 1000
}
