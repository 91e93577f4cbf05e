//! Waiting times: longer after each failure, and spread so that the nodes of a cluster do not ask all at once.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The wait before the next attempt: it doubles with each failure, up to a limit.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, limit: Duration) -> Self {
        Self { first, limit, next: first }
    }

    /// How long to wait after a failure.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.limit);
        wait
    }

    /// The next failure is the first again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// `period`, longer by a random part of up to `percent` hundredths of it.
pub(crate) fn jittered(period: Duration, percent: u32) -> Duration {
    period + period * percent / 100 * random_permille() / 1000
}

/// A random time between half of `period` and one and a half of it.
pub(crate) fn spread(period: Duration) -> Duration {
    period / 2 + period * random_permille() / 1000
}

/// From 0 to 999. std seeds each thread's hashers randomly, which is enough to spread load.
fn random_permille() -> u32 {
    u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or(0)
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
    fn random_times_stay_in_their_range() {
        let period = Duration::from_secs(10);
        for _ in 0..1000 {
            assert!((period..=period * 104 / 100).contains(&jittered(period, 4)));
            assert!((period / 2..=period * 3 / 2).contains(&spread(period)));
        }
    }
}
