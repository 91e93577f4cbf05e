//! CPU usage rates: CPU time per second, from one sample of a counter to the next.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const SECOND: i64 = 1_000_000_000;
/// A rate over a longer time says nothing of now.
const STALE: i64 = 120 * SECOND;
/// A sample is dropped after this time.
const FORGOTTEN: i64 = 600 * SECOND;

/// The last two samples of each container's and sandbox's processor time.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<String, Sample>>);

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: i64,
    used: u64,
    rate: Option<u64>,
}

impl Rates {
    /// Nanoseconds of CPU time per second, since the last sample that is at least a second old; `None` for the first
    /// sample of two minutes. `at` is in nanoseconds since 1970.
    #[must_use]
    pub fn record(&self, id: &str, at: i64, used: u64) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = all.get_mut(id) else {
            // Drop the samples of containers that no longer exist.
            all.retain(|_, last| at.saturating_sub(last.at) < FORGOTTEN);
            all.insert(id.to_owned(), Sample { at, used, rate: None });
            return None;
        };
        let since = at.saturating_sub(last.at);
        // Two readers at a time may come in another order than they have read.
        if (-STALE..0).contains(&since) {
            return last.rate;
        }
        // One that was made anew begins at nothing; a clock that was set back far, likewise, and one that was not read for long.
        if used < last.used || !(0..STALE).contains(&since) {
            *last = Sample { at, used, rate: None };
        } else if since >= SECOND {
            *last = Sample { at, used, rate: rate(used - last.used, since) };
        }
        last.rate
    }
}

fn rate(used: u64, since: i64) -> Option<u64> {
    let (used, since) = (u128::from(used), u128::try_from(since).ok()?);
    u64::try_from((used * 1_000_000_000).checked_div(since)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_time_between_two_samples() {
        let rates = Rates::default();
        assert_eq!(rates.record("a", 0, 100), None);
        assert_eq!(rates.record("a", 2 * SECOND, 2_000_000_100), Some(1_000_000_000));
        assert_eq!(rates.record("a", 2 * SECOND + 5, 2_500_000_100), Some(1_000_000_000), "too soon to tell");
        assert_eq!(rates.record("a", 4 * SECOND, 2_000_000_100), Some(0));
    }

    #[test]
    fn a_counter_that_is_not_read_any_more_is_forgotten() {
        let rates = Rates::default();
        assert_eq!(rates.record("old", 0, 100), None);
        assert_eq!(rates.record("new", FORGOTTEN, 100), None);
        let kept: Vec<String> = rates.0.lock().unwrap().keys().cloned().collect();
        assert_eq!(kept, ["new"]);
    }

    #[test]
    fn a_rate_over_hours_is_none() {
        let rates = Rates::default();
        assert_eq!(rates.record("a", 0, 0), None);
        assert_eq!(rates.record("a", STALE, 60_000_000_000), None);
        assert_eq!(rates.record("a", STALE + 2 * SECOND, 61_000_000_000), Some(500_000_000));
    }

    #[test]
    fn a_counter_that_begins_anew_has_no_rate() {
        let rates = Rates::default();
        assert_eq!(rates.record("a", 0, 100), None);
        assert_eq!(rates.record("a", 5 * SECOND, 50), None);
        assert_eq!(rates.record("a", 5 * SECOND - STALE - 1, 60), None);
        assert_eq!(rates.record("a", 7 * SECOND - STALE - 1, 1_000_000_060), Some(500_000_000));
    }

    /// Of two clients at a time, the one that came late with its older sample had no rate, and left none for the next.
    #[test]
    fn a_sample_that_is_older_than_the_last_is_left_out() {
        let rates = Rates::default();
        assert_eq!(rates.record("a", 10 * SECOND, 0), None);
        assert_eq!(rates.record("a", 12 * SECOND, 1_000_000_000), Some(500_000_000));
        assert_eq!(rates.record("a", 11 * SECOND, 400_000_000), Some(500_000_000));
        assert_eq!(rates.record("a", 14 * SECOND, 3_000_000_000), Some(1_000_000_000));
    }
}
