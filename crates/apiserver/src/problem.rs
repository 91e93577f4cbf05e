//! The current problem of a task: logged once when it begins or changes, and once when it is over.

use std::sync::Arc;

use tokio::sync::watch;

use crate::client::ApiError;

/// What a task cannot do at the moment; `None` while all is well.
pub type Problem = Option<Arc<ApiError>>;

pub(crate) struct Problems {
    /// The task, for the log: "node status".
    task: &'static str,
    current: watch::Sender<Problem>,
}

impl Problems {
    pub(crate) fn new(task: &'static str) -> Self {
        Self { task, current: watch::Sender::new(None) }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Problem> {
        self.current.subscribe()
    }

    pub(crate) fn failed(&self, error: ApiError) {
        let same = |known: &Problem| known.as_ref().is_some_and(|known| **known == error);
        if same(&self.current.borrow()) {
            tracing::debug!("{}: {error}", self.task);
            return;
        }
        tracing::warn!(hint = error.hint(), "{}: {error}; trying again", self.task);
        self.current.send_replace(Some(Arc::new(error)));
    }

    pub(crate) fn solved(&self) {
        if self.current.borrow().is_some() {
            tracing::info!("{}: the API server accepts requests again", self.task);
            self.current.send_replace(None);
        }
    }
}
