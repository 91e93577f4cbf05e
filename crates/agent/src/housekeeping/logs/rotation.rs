use std::fmt;
use std::str::FromStr;

use types::Quantity;

/// When a log is rotated, and how many of its files are kept: the kubelet's containerLogMaxSize and
/// containerLogMaxFiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRotation {
    /// A log of this size is rotated.
    pub max_size: LogSize,
    /// Maximum number of files of a container instance, including the current one.
    pub max_files: LogFiles,
    /// What rotated files are called.
    pub names: RotatedLogs,
}

/// What rotated files are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RotatedLogs {
    /// By numbers.
    #[default]
    Numbered,
    /// By the time, as a kubelet calls them. All but the newest are compressed, and a runtime whose log was removed by hand
    /// makes a new one.
    OfKubelet,
}

/// The size of a log in bytes; not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSize(u64);

impl LogSize {
    /// The size of a log that is never rotated.
    pub const UNLIMITED: Self = Self(u64::MAX);

    pub(super) fn bytes(self) -> u64 {
        self.0
    }
}

impl Default for LogSize {
    fn default() -> Self {
        Self(10 << 20)
    }
}

impl FromStr for LogSize {
    type Err = String;

    /// As a quantity of the API: `10Mi`, `500k`, `1048576`.
    fn from_str(text: &str) -> Result<Self, String> {
        let quantity: Quantity = text.parse().map_err(|_| format!("{text:?} is no quantity such as 10Mi"))?;
        match u64::try_from(quantity.units()) {
            Ok(bytes @ 1..) => Ok(Self(bytes)),
            _ => Err("a log has at least one byte".to_owned()),
        }
    }
}

impl fmt::Display for LogSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes % (1 << 20) == 0 => write!(f, "{}Mi", bytes >> 20),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// A number of log files; at least two, because a rotation would otherwise discard the whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFiles(usize);

impl LogFiles {
    pub(super) fn count(self) -> usize {
        self.0
    }
}

impl Default for LogFiles {
    fn default() -> Self {
        Self(5)
    }
}

impl FromStr for LogFiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count @ 2..) => Ok(Self(count)),
            _ => Err("a number from 2 on is needed".to_owned()),
        }
    }
}

impl fmt::Display for LogFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities_and_no_rotation_throws_all_away() {
        assert_eq!("10Mi".parse::<LogSize>().unwrap(), LogSize::default());
        assert_eq!("1k".parse::<LogSize>().unwrap().bytes(), 1000);
        assert_eq!((LogSize::default().to_string(), LogSize(7).to_string()), ("10Mi".into(), "7".into()));
        for wrong in ["0", "-1", "", "ten"] {
            assert!(wrong.parse::<LogSize>().is_err(), "{wrong:?}");
        }
        assert_eq!("5".parse::<LogFiles>().unwrap(), LogFiles::default());
        for wrong in ["0", "1", "-1", "x"] {
            assert!(wrong.parse::<LogFiles>().is_err(), "{wrong:?}");
        }
    }
}
