use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One file of a container's logs. They are ordered as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogFile {
    /// Which instance of the container wrote it.
    pub(super) attempt: u32,
    pub(super) part: Part,
}

/// Which of an instance's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Rotated away, as the how-many-th.
    Rotated(u64),
    /// What the runtime writes to.
    Current,
}

impl LogFile {
    pub(super) fn current(attempt: u32) -> Self {
        Self { attempt, part: Part::Current }
    }

    pub(super) fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self.part {
            Part::Current => format!("{}.log", self.attempt),
            Part::Rotated(number) => format!("{}.log.{number}", self.attempt),
        })
    }

    fn parsed(name: &str) -> Option<Self> {
        let (attempt, rest) = name.split_once(".log")?;
        let part = match rest.strip_prefix('.') {
            Some(number) => Part::Rotated(number.parse().ok()?),
            None if rest.is_empty() => Part::Current,
            None => return None,
        };
        Some(Self { attempt: attempt.parse().ok()?, part })
    }
}

/// All files of a container's log directory, from the first; none if it is not there.
pub(super) fn list(dir: &Path) -> Vec<LogFile> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<LogFile> =
        entries.filter_map(|entry| LogFile::parsed(entry.file_name().to_str()?)).collect();
    all.sort_unstable();
    all
}

/// Those of one instance.
pub(super) fn of_attempt(dir: &Path, attempt: u32) -> Vec<LogFile> {
    list(dir).into_iter().filter(|file| file.attempt == attempt).collect()
}

/// Removes all logs of one instance, the oldest first.
pub(crate) fn remove(dir: &Path, attempt: u32) -> io::Result<()> {
    for file in of_attempt(dir, attempt) {
        gone(fs::remove_file(file.path(dir)))?;
    }
    Ok(())
}

pub(super) fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["1.log", "0.log.10", "0.log.9", "0.log", "x.log", "0.log.gz", "0.log.", "2.logs", "1.log.1"]
        {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let names: Vec<_> =
            list(dir.path()).iter().map(|file| file.path(Path::new("")).display().to_string()).collect();
        assert_eq!(names, ["0.log.9", "0.log.10", "0.log", "1.log.1", "1.log"]);
        remove(dir.path(), 0).unwrap();
        assert_eq!(list(dir.path()).len(), 2);
    }
}
