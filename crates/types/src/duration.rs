use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration as Go writes it, `1m30s` or `-1s`, in whole nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GoDuration(i64);

/// Text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: it takes numbers with one of h, m, s, ms, us, ns, such as 1m30s")]
pub struct NotADuration(pub String);

const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
const SECOND: i64 = 1_000_000_000;

impl GoDuration {
    /// So many nanoseconds.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// So many seconds.
    #[must_use]
    pub fn from_seconds(seconds: u32) -> Self {
        Self(i64::from(seconds) * SECOND)
    }

    /// The whole nanoseconds.
    #[must_use]
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// Whether it is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The same for the standard library; zero where it is negative.
    #[must_use]
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<Duration> for GoDuration {
    /// The longest one for what is longer.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        parse(text).map(Self).ok_or_else(|| NotADuration(text.to_owned()))
    }
}

impl TryFrom<String> for GoDuration {
    type Error = NotADuration;

    fn try_from(text: String) -> Result<Self, NotADuration> {
        text.parse()
    }
}

impl From<GoDuration> for String {
    fn from(duration: GoDuration) -> Self {
        duration.to_string()
    }
}

fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at_checked(end)?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at_checked(end)?;
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, *unit)?)?;
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// `number` with a fraction, times `unit`; what is less than a nanosecond is cut off.
fn scaled(number: &str, unit: i64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits: String = fraction.chars().take(15).collect();
    let power = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let part: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    whole.checked_mul(i128::from(unit))?.checked_add(part * i128::from(unit) / power)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let second = SECOND.unsigned_abs();
        match nanoseconds {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{sign}{nanoseconds}ns"),
            1_000..1_000_000 => write!(f, "{sign}{}\u{b5}s", decimal(nanoseconds, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{sign}{}ms", decimal(nanoseconds, 1_000_000)),
            _ => {
                f.write_str(sign)?;
                let minutes = nanoseconds / (60 * second);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => {}
                    (0, minutes) => write!(f, "{minutes}m")?,
                    (hours, minutes) => write!(f, "{hours}h{minutes}m")?,
                }
                write!(f, "{}s", decimal(nanoseconds % (60 * second), second))
            }
        }
    }
}

fn decimal(amount: u64, unit: u64) -> String {
    let digits = unit.to_string().len() - 1;
    let text = format!("{}.{:0digits$}", amount / unit, amount % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, nanoseconds, written) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("10s", 10 * SECOND, "10s"),
            ("1m0s", 60 * SECOND, "1m0s"),
            ("90s", 90 * SECOND, "1m30s"),
            ("4h", 4 * 3600 * SECOND, "4h0m0s"),
            ("1.5h", 5400 * SECOND, "1h30m0s"),
            (".5s", SECOND / 2, "500ms"),
            ("100ms", SECOND / 10, "100ms"),
            ("2h45m30.5s", 9930 * SECOND + SECOND / 2, "2h45m30.5s"),
            ("1500us", 1_500_000, "1.5ms"),
            ("-1s", -SECOND, "-1s"),
            ("+1s", SECOND, "1s"),
            ("1ns", 1, "1ns"),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.nanoseconds(), nanoseconds, "{text}");
            assert_eq!(duration.to_string(), written, "{text}");
            assert_eq!(written.parse::<GoDuration>(), Ok(duration), "{written}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "-", "1", "10", "s", "1 s", "1d", "1s5", "1..5s", ".s", "1h-5m", "9223372037s", "ä"]
        {
            assert_eq!(text.parse::<GoDuration>(), Err(NotADuration(text.to_owned())));
        }
    }

    #[test]
    fn a_negative_duration_is_no_time_for_the_standard_library() {
        assert_eq!("-1s".parse::<GoDuration>().unwrap().to_std(), Duration::ZERO);
        assert_eq!("1.5s".parse::<GoDuration>().unwrap().to_std(), Duration::from_millis(1500));
        assert_eq!(GoDuration::from(Duration::from_millis(1500)).to_string(), "1.5s");
    }
}
