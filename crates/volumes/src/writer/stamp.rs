use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use types::time::{self, Date};

/// The name of a directory that holds one set of files: `..2026_01_31_23_59_59.123456789`. Names of
/// this form are the writer's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp(String);

/// A digit stands for any digit.
const FORM: &str = "..0000_00_00_00_00_00.";

impl Stamp {
    /// The name for a set made at this time. Two of one nanosecond differ by `attempt`.
    pub(crate) fn at(now: SystemTime, attempt: u32) -> Self {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let Date { year, month, day } = time::date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let nanos = since.subsec_nanos();
        Self(format!(
            "..{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}_{second:02}.{nanos:09}{attempt:02}"
        ))
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (date, rest) = name.split_at_checked(FORM.len())?;
        let fits = |(c, form): (char, char)| if form == '0' { c.is_ascii_digit() } else { c == form };
        let is_one = date.chars().zip(FORM.chars()).all(fits)
            && !rest.is_empty()
            && rest.chars().all(|c| c.is_ascii_alphanumeric());
        is_one.then(|| Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "..1970_01_01_00_00_00."),
            (951_782_400, "..2000_02_29_00_00_00."),
            (1_709_251_199, "..2024_02_29_23_59_59."),
            (1_767_225_599, "..2025_12_31_23_59_59."),
            (4_107_542_400, "..2100_03_01_00_00_00."),
        ] {
            let stamp = Stamp::at(UNIX_EPOCH + Duration::from_secs(seconds), 3);
            assert_eq!(stamp.as_str(), format!("{text}00000000003"));
            assert_eq!(Stamp::parse(stamp.as_str()), Some(stamp));
        }
    }

    #[test]
    fn only_names_of_the_writers_form_are_its_own() {
        assert!(Stamp::parse("..2016_02_01_15_04_05.12345678").is_some(), "upstream's are too");
        for name in [
            "..data",
            "..data_tmp",
            "..2016_02_01_15_04_05.",
            "..2016_02_01_15_04_05",
            "..2016_02_01_15_04_05.1/2",
            "..2016-02-01_15_04_05.1",
            "2016_02_01_15_04_05.12345678",
            "",
            "..2016_02_01_15_04_0é.1",
        ] {
            assert_eq!(Stamp::parse(name), None, "{name}");
        }
    }
}
