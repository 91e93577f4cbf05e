//! Messages of the command line, as events of the log.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ids::pool::IdPool;
use tracing::{error, info, warn};

use crate::failure::Failure;

pub(crate) fn say(text: &str) {
    info!("{text}");
}

pub(crate) fn note(text: &str) {
    info!("note: {text}");
}

pub(crate) fn warning(text: &str) {
    warn!("{text}");
}

pub(crate) fn failure(failure: &Failure) {
    error!(hint = failure.hint(), "{}", failure.message());
}

/// Runs `work`, and says the text if it takes longer than a second.
pub(crate) fn unless_soon<T>(text: String, work: impl FnOnce() -> T) -> T {
    let (over, waits) = std::sync::mpsc::channel::<()>();
    // The sender is dropped when the work is done.
    let late = move || {
        (waits.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout)).then(|| say(&text))
    };
    let _ = std::thread::Builder::new().spawn(late);
    let done = work();
    drop(over);
    done
}

/// What an operator should know about the pool though it works.
pub(crate) fn pool_notes(pool: &IdPool, max_pods: Option<u32>) {
    for text in pool.notes(max_pods) {
        note(&text);
    }
}
