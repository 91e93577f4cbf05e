//! Points in time as text, in UTC. Callers read the clock: everything here takes seconds since 1970-01-01T00:00:00Z.

const DAY: u64 = 86_400;

/// The time in the form of RFC 3339, with seconds: `2026-03-01T12:30:05Z`.
#[must_use]
pub fn stamp(seconds: u64) -> String {
    let Date { year, month, day } = date(seconds / DAY);
    let (h, m, s) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

/// The seconds of a text as [`stamp`] writes it; `None` for any other text.
///
/// ```
/// assert_eq!(types::time::seconds("2026-03-01T12:30:05Z"), Some(1_772_368_205));
/// assert_eq!(types::time::seconds("yesterday"), None);
/// ```
#[must_use]
pub fn seconds(text: &str) -> Option<u64> {
    let (day, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers =
        |text: &str, mark| text.split(mark).map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>();
    let (day, time) = (numbers(day, '-')?, numbers(time, ':')?);
    let ([year, month, day], [h, m, s]) = (day.as_slice(), time.as_slice()) else { return None };
    if *h > 23 || *m > 59 || *s > 59 {
        return None;
    }
    let seconds = days(Date { year: *year, month: *month, day: *day })? * DAY + h * 3600 + m * 60 + s;
    // A day that there is not is written otherwise.
    (stamp(seconds) == text).then_some(seconds)
}

/// The days from 1970-01-01 to a date of the years 1970 to 9999.
fn days(of: Date) -> Option<u64> {
    const DAYS_TO_1970: u64 = 719_468;
    if !(1970..=9999).contains(&of.year) || !(1..=12).contains(&of.month) || !(1..=31).contains(&of.day) {
        return None;
    }
    // Counted from a 1 March, as in [`date`].
    let (year, month) = if of.month > 2 { (of.year, of.month - 3) } else { (of.year - 1, of.month + 9) };
    let (cycle, year) = (year / 400, year % 400);
    let day = (153 * month + 2) / 5 + of.day - 1;
    (cycle * 146_097 + year * 365 + year / 4 - year / 100 + day).checked_sub(DAYS_TO_1970)
}

/// The time between two points in time, in one short word: `<1m`, `12m`, `3h`, `5d`.
#[must_use]
pub fn age(since: u64, now: u64) -> String {
    match now.saturating_sub(since) {
        s if s < 60 => "<1m".to_owned(),
        s if s < 3600 => format!("{}m", s / 60),
        s if s < DAY => format!("{}h", s / 3600),
        s => format!("{}d", s / DAY),
    }
}

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// The year, four digits until 9999.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
}

/// The Gregorian date that many days after 1970-01-01. Years are counted from a 1 March, so that the
/// leap day is the last of its year, in cycles of 400 years.
#[must_use]
pub fn date(days: u64) -> Date {
    const DAYS_TO_1970: u64 = 719_468;
    let days = days + DAYS_TO_1970;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    Date { year: cycle * 400 + year + carry, month, day }
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
    fn a_stamp_reads_as_its_seconds_and_no_other_text_does() {
        for day in (0..40_000).step_by(7) {
            let at = day * DAY + 86_399 - day % 86_400;
            assert_eq!(seconds(&stamp(at)), Some(at), "{}", stamp(at));
        }
        assert_eq!(seconds("9999-12-31T23:59:59Z"), Some(253_402_300_799));
        for wrong in [
            "",
            "Z",
            "2026-03-01",
            "2026-03-01T12:30:05",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-3-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "99999999999999999999-01-01T00:00:00Z",
            "2026-03-01T00:00:18446744073709551615Z",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_age_is_one_short_word() {
        let ages: Vec<_> = [0, 59, 60, 3599, 3600, 86_399, 86_400 * 9].map(|s| age(0, s)).into();
        assert_eq!(ages, ["<1m", "<1m", "1m", "59m", "1h", "23h", "9d"]);
        assert_eq!(age(100, 0), "<1m");
    }
}
