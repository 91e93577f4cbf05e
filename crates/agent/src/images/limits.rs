//! How many images are pulled at once, and how fast one after the other.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::bucket::Bucket;

/// The limits of image pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullLimits {
    /// How many images are pulled at once; `None`: no limit.
    pub at_once: Option<u32>,
    /// How many pulls begin per second in the long run; zero: no limit.
    pub per_second: u32,
    /// How many pulls begin at once.
    pub burst: u32,
}

/// Keeps to limits.
#[derive(Debug)]
pub(crate) struct PullGate {
    places: Option<Semaphore>,
    bucket: Option<Mutex<Bucket>>,
}

/// A pull that may run. The next one may begin when it is dropped.
#[derive(Debug)]
pub(crate) struct PullPlace<'a>(
    #[allow(dead_code, reason = "held for its drop")] Option<SemaphorePermit<'a>>,
);

/// Too many pulls began within a short time. The pull fails, and is tried again later.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("pull QPS exceeded")]
pub(crate) struct QpsExceeded;

impl PullGate {
    pub(crate) fn new(limits: PullLimits) -> Self {
        let places =
            limits.at_once.map(|count| Semaphore::new(usize::try_from(count).unwrap_or(usize::MAX >> 3)));
        Self { places, bucket: Bucket::per_second(limits.per_second, limits.burst).map(Mutex::new) }
    }

    /// Waits for a place; pulls get theirs in the order in which they ask.
    pub(crate) async fn place(&self) -> PullPlace<'_> {
        match &self.places {
            // It is never closed.
            Some(places) => PullPlace(places.acquire().await.ok()),
            None => PullPlace(None),
        }
    }

    /// Counts a pull that begins.
    ///
    /// # Errors
    /// If too many began within a short time.
    pub(crate) fn begin(&self) -> Result<(), QpsExceeded> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if bucket.take(Instant::now()) { Ok(()) } else { Err(QpsExceeded) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pulls_wait_for_their_place_and_fail_if_they_are_too_many() {
        let gate = PullGate::new(PullLimits { at_once: Some(1), per_second: 5, burst: 2 });
        let first = gate.place().await;
        assert!(tokio::time::timeout(Duration::from_secs(60), gate.place()).await.is_err());
        drop(first);
        let _second = gate.place().await;
        assert_eq!([gate.begin(), gate.begin(), gate.begin()], [Ok(()), Ok(()), Err(QpsExceeded)]);
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!([gate.begin(), gate.begin()], [Ok(()), Err(QpsExceeded)]);
    }

    #[tokio::test]
    async fn without_limits_all_pulls_run() {
        let gate = PullGate::new(PullLimits::default());
        let _places = (gate.place().await, gate.place().await);
        assert!((0..1000).all(|_| gate.begin().is_ok()));
    }
}
