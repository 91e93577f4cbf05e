//! How fast a number that only grows is growing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const SECOND: i64 = 1_000_000_000;
/// After so long without a look nobody is remembered.
const FORGOTTEN: i64 = 600 * SECOND;

/// The last two looks at each container's and sandbox's processor time.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<String, Look>>);

#[derive(Debug, Clone, Copy)]
struct Look {
    at: i64,
    used: u64,
    rate: Option<u64>,
}

impl Rates {
    /// Nanoseconds of processor time in a second, since the last look that is at least a second old; `None` for
    /// whom nobody has looked at before. `at` is in nanoseconds since 1970.
    #[must_use]
    pub fn look(&self, id: &str, at: i64, used: u64) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = all.get_mut(id) else {
            // Whoever is gone is not looked at any more.
            all.retain(|_, last| at.saturating_sub(last.at) < FORGOTTEN);
            all.insert(id.to_owned(), Look { at, used, rate: None });
            return None;
        };
        let since = at.saturating_sub(last.at);
        // One that was made anew begins at nothing; a clock that was set back, likewise.
        if used < last.used || since < 0 {
            *last = Look { at, used, rate: None };
        } else if since >= SECOND {
            *last = Look { at, used, rate: rate(used - last.used, since) };
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
    fn a_rate_is_of_the_time_between_two_looks() {
        let rates = Rates::default();
        assert_eq!(rates.look("a", 0, 100), None);
        assert_eq!(rates.look("a", 2 * SECOND, 2_000_000_100), Some(1_000_000_000));
        assert_eq!(rates.look("a", 2 * SECOND + 5, 2_500_000_100), Some(1_000_000_000), "too soon to tell");
        assert_eq!(rates.look("a", 4 * SECOND, 2_000_000_100), Some(0));
    }

    #[test]
    fn who_is_not_looked_at_any_more_is_forgotten() {
        let rates = Rates::default();
        assert_eq!(rates.look("old", 0, 100), None);
        assert_eq!(rates.look("new", FORGOTTEN, 100), None);
        let kept: Vec<String> = rates.0.lock().unwrap().keys().cloned().collect();
        assert_eq!(kept, ["new"]);
    }

    #[test]
    fn who_begins_anew_has_no_rate() {
        let rates = Rates::default();
        assert_eq!(rates.look("a", 0, 100), None);
        assert_eq!(rates.look("a", 5 * SECOND, 50), None);
        assert_eq!(rates.look("a", 1, 60), None);
    }
}
