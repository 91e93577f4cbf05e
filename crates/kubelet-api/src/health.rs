use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The loop that drives all pods is expected to turn this often, as with a kubelet.
const LATEST: Duration = Duration::from_mins(2);

/// Whether the loop that drives all pods turns. Clones are of the same loop.
#[derive(Debug, Clone)]
pub struct SyncLoop {
    last: Arc<Mutex<Instant>>,
}

impl Default for SyncLoop {
    /// A loop that begins now.
    fn default() -> Self {
        Self { last: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl SyncLoop {
    /// Notes that the loop turns.
    pub fn turn(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether it turned within the last two minutes.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < LATEST
    }

    #[cfg(test)]
    pub(crate) fn stuck() -> Self {
        let last = Instant::now().checked_sub(LATEST).unwrap_or_else(Instant::now);
        Self { last: Arc::new(Mutex::new(last)) }
    }
}
