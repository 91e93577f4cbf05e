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
    /// The file that the runtime writes to.
    Current,
}

impl LogFile {
    pub(super) fn current(attempt: u32) -> Self {
        Self { attempt, part: Part::Current }
    }

    pub(super) fn name(self) -> String {
        match self.part {
            Part::Current => format!("{}.log", self.attempt),
            Part::Rotated(number) => format!("{}.log.{number}", self.attempt),
        }
    }

    pub(super) fn parsed(name: &str) -> Option<Self> {
        let (attempt, rest) = name.split_once(".log")?;
        let part = match rest.strip_prefix('.') {
            Some(number) => Part::Rotated(number.parse().ok()?),
            None if rest.is_empty() => Part::Current,
            None => return None,
        };
        Some(Self { attempt: attempt.parse().ok()?, part })
    }
}
