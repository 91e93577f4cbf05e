//! Waiting times: longer after each failure, and spread so that the clients of a cluster do not ask all at once.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// After so long a time without a failure the next one is the first again, as in client-go.
const QUIET: Duration = Duration::from_secs(120);

/// The wait before the next attempt: it doubles with each failure, up to a limit.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    limit: Duration,
    next: Duration,
    /// When the last failure was.
    failed: Option<Instant>,
}

impl Backoff {
    /// Waits from `first` up to `limit`.
    #[must_use]
    pub fn new(first: Duration, limit: Duration) -> Self {
        Self { first, limit, next: first, failed: None }
    }

    /// The waits of a watch at the API server: from 800 ms to 30 s.
    #[must_use]
    pub fn of_watch() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30))
    }

    /// The waits of the watch of an object that a pod waits for: the first failures are often over in a moment.
    #[must_use]
    pub fn of_object() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(30))
    }

    /// How long to wait after a failure.
    pub fn after_failure(&mut self) -> Duration {
        self.step(Instant::now())
    }

    /// How long to wait after a failure, longer by a random part of up to the same length.
    pub fn spread_after_failure(&mut self) -> Duration {
        let wait = self.after_failure();
        wait + random_below(wait)
    }

    fn step(&mut self, now: Instant) -> Duration {
        if self.failed.is_some_and(|failed| now.duration_since(failed) > QUIET) {
            self.reset();
        }
        self.failed = Some(now);
        let wait = self.next;
        self.next = (wait * 2).min(self.limit);
        wait
    }

    /// The next failure is the first again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// `period`, longer by a random part of up to `percent` hundredths of it.
#[must_use]
pub fn jittered(period: Duration, percent: u32) -> Duration {
    period + random_below(period * percent / 100)
}

/// A random time between half of `period` and one and a half of it.
#[must_use]
pub fn spread(period: Duration) -> Duration {
    period / 2 + random_below(period)
}

/// A random time below `limit`. std seeds each thread's hashers randomly, which is enough to spread load.
#[must_use]
pub fn random_below(limit: Duration) -> Duration {
    let permille = u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or(0);
    limit * permille / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_starts_again() {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        let waits: Vec<u128> = (0..5).map(|_| backoff.after_failure().as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.after_failure(), Duration::from_millis(200));
    }

    #[test]
    fn after_a_quiet_time_the_wait_starts_again() {
        let (mut backoff, start) = (Backoff::of_watch(), Instant::now());
        let waits: Vec<u128> = (0..8).map(|_| backoff.step(start).as_millis()).collect();
        assert_eq!(waits, [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(backoff.step(start + QUIET).as_secs(), 30);
        assert_eq!(backoff.step(start + QUIET * 3).as_millis(), 800);
    }

    #[test]
    fn random_times_stay_in_their_range() {
        let period = Duration::from_secs(10);
        for _ in 0..1000 {
            assert!((period..=period * 104 / 100).contains(&jittered(period, 4)));
            assert!((period / 2..=period * 3 / 2).contains(&spread(period)));
            assert!(random_below(period) < period);
            let waits = Backoff::new(period, period).spread_after_failure();
            assert!((period..period * 2).contains(&waits));
        }
    }
}
