use std::time::Duration;

use tokio::time::Instant;

/// So many events are sent at once.
const BURST: u32 = 100;
/// In the long run, one in this time.
const INTERVAL: Duration = Duration::from_millis(20);

/// How fast events are sent: a hundred at once, and fifty a second.
#[derive(Debug)]
pub(super) struct Pace {
    left: u32,
    /// When the next one was added.
    filled: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BURST, filled: now }
    }

    /// Takes the right to send one event; returns how long to wait before it is sent.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        while self.left < BURST && self.filled + INTERVAL <= now {
            self.filled += INTERVAL;
            self.left += 1;
        }
        if self.left == BURST {
            self.filled = now;
        }
        if self.left > 0 {
            self.left -= 1;
            return Duration::ZERO;
        }
        self.filled += INTERVAL;
        self.filled.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_is_followed_by_fifty_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut now = start;
        for _ in 0..200 {
            now += pace.take(now);
        }
        assert_eq!(now - start, INTERVAL * 100);
        let later = now + Duration::from_secs(60);
        assert!((0..100).all(|_| pace.take(later) == Duration::ZERO));
        assert_eq!(pace.take(later), INTERVAL);
    }
}
