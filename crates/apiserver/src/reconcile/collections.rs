//! Collections of what no source has, one at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The callers that wait for the end of the collection that is under way; `None` while none is.
#[derive(Debug, Clone, Default)]
pub(super) struct Collections(Arc<Mutex<Option<Vec<oneshot::Sender<()>>>>>);

/// A collection that is under way. Its end is notified when this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Collections);

impl Collections {
    /// Begins a collection; `None` if one is under way. `done` is notified at its end, of whichever it is.
    pub(super) fn begin(&self, done: Option<oneshot::Sender<()>>) -> Option<UnderWay> {
        let mut waiting = self.lock();
        let is_first = waiting.is_none();
        waiting.get_or_insert_default().extend(done);
        is_first.then(|| UnderWay(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<oneshot::Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let waiting = self.0.lock().take();
        for done in waiting.into_iter().flatten() {
            // The caller may not wait any more.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each round of eviction began one more beside those that the runtime did not let end.
    #[tokio::test]
    async fn a_collection_that_is_under_way_is_waited_for_and_no_second_one_begins() {
        let collections = Collections::default();
        let (first, first_ended) = oneshot::channel();
        let (second, second_ended) = oneshot::channel();
        let under_way = collections.begin(Some(first)).unwrap();
        assert!(collections.begin(Some(second)).is_none() && collections.begin(None).is_none());
        drop(under_way);
        assert_eq!((first_ended.await, second_ended.await), (Ok(()), Ok(())));
        assert!(collections.begin(None).is_some());
    }
}
