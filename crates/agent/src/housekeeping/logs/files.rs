use std::time::{SystemTime, UNIX_EPOCH};

use types::time::date;

const COMPRESSED: &str = ".gz";
/// The suffix of a file that is not complete yet.
const TEMPORARY: &str = ".tmp";
const DAY: u64 = 86_400;

/// One file of a container's logs. The order is that in which they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogFile {
    /// The instance of the container that wrote it.
    pub(super) attempt: u32,
    pub(super) part: Part,
}

/// The current file of an instance, or a rotated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// A rotated file with its number; a higher number is newer.
    Rotated(u64),
    /// A rotated file of a node of a cluster.
    Dated {
        /// When it was rotated.
        at: Stamp,
        /// Whether it is compressed.
        is_compressed: bool,
    },
    /// The file that the runtime writes to.
    Current,
}

/// A second of UTC, as its digits are written: 20261119103000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

impl Stamp {
    /// So many seconds after 1970.
    pub(super) fn at(seconds: u64) -> Self {
        let date = date(seconds / DAY);
        let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
        let parts = [(date.month, 100), (date.day, 100), (hour, 100), (minute, 100), (second, 100)];
        Self(parts.into_iter().fold(date.year, |number, (part, scale)| number * scale + part))
    }

    /// The latest that a file can have which was rotated by now, whatever the clock was set to. A pod that can write to its log
    /// directory can make files with later ones.
    pub(super) fn latest() -> Self {
        Self::at(now().saturating_add(DAY))
    }

    /// A name that comes after this one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    fn parsed(text: &str) -> Option<Self> {
        let (date, time) = text.split_once('-')?;
        let digits = |text: &str, length: usize| {
            (text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| text.parse::<u64>().ok())
        };
        Some(Self(digits(date, 8)?? * 1_000_000 + digits(time, 6)??))
    }
}

impl LogFile {
    pub(super) fn current(attempt: u32) -> Self {
        Self { attempt, part: Part::Current }
    }

    /// Whether its text can be read as it is.
    pub(super) fn is_text(self) -> bool {
        !matches!(self.part, Part::Dated { is_compressed: true, .. })
    }

    /// Whether it was rotated later than at this time.
    pub(super) fn is_after(self, latest: Stamp) -> bool {
        matches!(self.part, Part::Dated { at, .. } if at > latest)
    }

    /// The name of the file that is to become this one.
    pub(super) fn temporary(self) -> String {
        format!("{}{TEMPORARY}", self.name())
    }

    /// The file that one of this name is to become.
    pub(super) fn of_temporary(name: &str) -> Option<Self> {
        let log = Self::parsed(name.strip_suffix(TEMPORARY)?)?;
        (!log.is_text()).then_some(log)
    }

    pub(super) fn name(self) -> String {
        let attempt = self.attempt;
        match self.part {
            Part::Current => format!("{attempt}.log"),
            Part::Rotated(number) => format!("{attempt}.log.{number}"),
            Part::Dated { at, is_compressed } => {
                let (date, time) = (at.0 / 1_000_000, at.0 % 1_000_000);
                let suffix = if is_compressed { COMPRESSED } else { "" };
                format!("{attempt}.log.{date:08}-{time:06}{suffix}")
            }
        }
    }

    pub(super) fn parsed(name: &str) -> Option<Self> {
        let (attempt, rest) = name.split_once(".log")?;
        let part = match rest.strip_prefix('.') {
            Some(rest) => match rest.parse() {
                Ok(number) => Part::Rotated(number),
                Err(_) => {
                    let text = rest.strip_suffix(COMPRESSED);
                    let at = Stamp::parsed(text.unwrap_or(rest))?;
                    Part::Dated { at, is_compressed: text.is_some() }
                }
            },
            None if rest.is_empty() => Part::Current,
            None => return None,
        };
        Some(Self { attempt: attempt.parse().ok()?, part })
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_have_a_kubelets_names() {
        let at = Stamp::at(1_772_368_205);
        let file = |is_compressed| LogFile { attempt: 3, part: Part::Dated { at, is_compressed } };
        let names = [file(false), file(true)].map(LogFile::name);
        assert_eq!(names, ["3.log.20260301-123005", "3.log.20260301-123005.gz"]);
        for name in names {
            assert_eq!(LogFile::parsed(&name).unwrap().name(), name);
        }
        for wrong in
            ["3.log.20260301", "3.log.2026031-123005", "3.log.20260301-12300x", "3.log.gz", "3.log.1.gz"]
        {
            let found = LogFile::parsed(wrong);
            assert!(found.is_none_or(|found| matches!(found.part, Part::Rotated(_))), "{wrong}: {found:?}");
        }
        assert!(at < at.next() && at.next() < Stamp::at(1_772_368_260));
    }
}
