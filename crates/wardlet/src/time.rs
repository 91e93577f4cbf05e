//! Points in time for people and for machines, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// `2026-03-01T12:30:05Z`.
pub(crate) fn stamp(seconds: u64) -> String {
    let (year, month, day) = date(seconds / DAY);
    let (h, m, s) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

/// How long ago, in one short word: `<1m`, `12m`, `3h`, `5d`.
pub(crate) fn age(since: u64, now: u64) -> String {
    match now.saturating_sub(since) {
        s if s < 60 => "<1m".to_owned(),
        s if s < 3600 => format!("{}m", s / 60),
        s if s < DAY => format!("{}h", s / 3600),
        s => format!("{}d", s / DAY),
    }
}

/// The Gregorian date that many days after 1970-01-01. Years are counted from a 1 March, so that the
/// leap day is the last of its year, in cycles of 400 years.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    let days = days + DAYS_TO_1970;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_the_date_that_everybody_else_says() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(stamp(seconds), text);
        }
    }

    #[test]
    fn an_age_is_one_short_word() {
        let ages: Vec<_> = [0, 59, 60, 3599, 3600, 86_399, 86_400 * 9].map(|s| age(0, s)).into();
        assert_eq!(ages, ["<1m", "<1m", "1m", "59m", "1h", "23h", "9d"]);
        assert_eq!(age(100, 0), "<1m");
    }
}
