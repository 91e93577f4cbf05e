//! Messages of the command line, as events of the log.

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

/// What an operator should know about the pool though it works.
pub(crate) fn pool_notes(pool: &IdPool, max_pods: Option<u32>) {
    for text in pool.notes(max_pods) {
        note(&text);
    }
}
