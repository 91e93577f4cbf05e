//! A token bucket without tokens: the time at which the next token is free (GCRA).

use std::time::Duration;

use tokio::time::Instant;

/// Allows `burst` events at once, and one per `interval` in the long run.
#[derive(Debug, Clone)]
pub struct Bucket {
    interval: Duration,
    tolerance: Duration,
    /// When the bucket is full again; `None` if it is.
    full_at: Option<Instant>,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub fn new(burst: u32, interval: Duration) -> Self {
        Self { interval, tolerance: interval * burst.saturating_sub(1), full_at: None }
    }

    /// A full bucket that allows so many events per second in the long run; `None` for no limit, which is what zero
    /// means.
    #[must_use]
    pub fn per_second(events: u32, burst: u32) -> Option<Self> {
        let interval = Duration::from_secs(1).checked_div(events)?;
        Some(Self::new(burst, interval))
    }

    /// How long to wait for the next token; zero if there is one now.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        let full_in = self.full_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        full_in.saturating_sub(self.tolerance)
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_free = self.wait(now).is_zero();
        if is_free {
            self.full_at = Some(self.full_at.map_or(now, |at| at.max(now)) + self.interval);
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_per_interval() {
        let (minutes, now) = (|count: u64| Duration::from_secs(count * 60), Instant::now());
        let mut bucket = Bucket::new(25, minutes(5));
        assert_eq!((0..30).filter(|_| bucket.take(now)).count(), 25);
        assert_eq!(bucket.wait(now), minutes(5));
        assert!(!bucket.take(now + minutes(4)));
        assert_eq!((0..30).filter(|_| bucket.take(now + minutes(11))).count(), 2);
        assert_eq!((0..30).filter(|_| bucket.take(now + minutes(1000))).count(), 25);
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        assert!(Bucket::per_second(0, 10).is_none());
        let mut bucket = Bucket::per_second(5, 2).unwrap();
        let now = Instant::now();
        assert_eq!((0..9).filter(|_| bucket.take(now)).count(), 2);
        assert!(bucket.take(now + Duration::from_millis(200)));
    }
}
