//! The delays between attempts to reach the API server, as client-go has them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// The first delay.
const FIRST: Duration = Duration::from_millis(800);
/// The longest delay, without its random part.
const LONGEST: Duration = Duration::from_secs(30);
/// After so long a time without a failure the delays start again with the first.
const RESET: Duration = Duration::from_secs(120);

/// Delays from 800 ms to 30 s, each twice the one before it, plus a random part of up to the same length.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    last: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: FIRST, last: None }
    }

    /// The delay after a failure.
    pub(crate) fn delay(&mut self) -> Duration {
        let delay = self.step(Instant::now());
        delay + random_below(delay)
    }

    /// The delay without its random part.
    fn step(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > RESET) {
            self.next = FIRST;
        }
        self.last = Some(now);
        let delay = self.next;
        self.next = (delay * 2).min(LONGEST);
        delay
    }
}

/// A random duration below `limit`, so that nodes do not return at the same moment.
pub(crate) fn random_below(limit: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(random % millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_their_limit_and_start_again_after_a_quiet_time() {
        let (mut backoff, start) = (Backoff::new(), Instant::now());
        let delays: Vec<u128> = (0..8).map(|_| backoff.step(start).as_millis()).collect();
        assert_eq!(delays, [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(backoff.step(start + RESET), LONGEST);
        assert_eq!(backoff.step(start + RESET * 3), FIRST);
    }

    #[test]
    fn the_random_part_is_shorter_than_the_delay() {
        assert!((0..100).all(|_| random_below(FIRST) < FIRST));
    }
}
