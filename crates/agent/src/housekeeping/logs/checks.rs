use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// How often logs are measured, and of how many containers they are compressed at once: the kubelet's containerLogMonitorInterval and
/// containerLogMaxWorkers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogChecks {
    /// The longest time between two measurements of a log. One that grows fast is measured more often.
    pub interval: Duration,
    /// The rotated logs of how many containers of the node are compressed at once; `None`: no limit. Rotation itself, which takes
    /// no time, waits for no other: a log grows until then.
    pub workers: Option<NonZeroU32>,
}

impl Default for LogChecks {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), workers: None }
    }
}

/// Keeps to that.
#[derive(Debug)]
pub(crate) struct LogWorkers {
    pub(crate) interval: Duration,
    places: Option<Semaphore>,
}

impl LogWorkers {
    pub(crate) fn new(checks: LogChecks) -> Self {
        let places = checks.workers.map(|count| Semaphore::new(usize::try_from(count.get()).unwrap_or(1)));
        Self { interval: checks.interval, places }
    }

    /// Waits until rotated logs of a container may be compressed. Those of the next one may when this is dropped.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        match &self.places {
            // It is never closed.
            Some(places) => places.acquire().await.ok(),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_logs_are_compressed_at_once_than_there_are_workers() {
        let workers = LogWorkers::new(LogChecks { workers: NonZeroU32::new(2), ..LogChecks::default() });
        let (first, _second) = (workers.place().await, workers.place().await);
        assert!(tokio::time::timeout(Duration::from_secs(60), workers.place()).await.is_err());
        drop(first);
        assert!(workers.place().await.is_some());
        let unlimited = LogWorkers::new(LogChecks::default());
        let _places = (unlimited.place().await, unlimited.place().await);
    }
}
