use std::io;
use std::path::Path;

use kernel::Kind;

use super::dir::LogDir;

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

/// Removes all logs of one instance, the oldest first, and what stands in the place of one.
pub(crate) fn remove(dir: &Path, attempt: u32) -> io::Result<()> {
    let dir = LogDir::open(dir)?;
    let all = dir.all()?.into_iter().filter(|found| found.kind != Kind::Directory);
    all.filter(|found| found.log.attempt == attempt).try_for_each(|found| dir.remove(found.log))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_listed_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["1.log", "0.log.10", "0.log.9", "0.log", "x.log", "0.log.gz", "0.log.", "2.logs", "1.log.1"]
        {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let logs = || LogDir::open(dir.path()).unwrap().logs().unwrap();
        let names: Vec<_> = logs().into_iter().map(LogFile::name).collect();
        assert_eq!(names, ["0.log.9", "0.log.10", "0.log", "1.log.1", "1.log"]);
        remove(dir.path(), 0).unwrap();
        assert_eq!(logs().len(), 2);
    }
    /// A pod that can write to its log directory had root remove files of the host.
    #[test]
    fn no_log_is_removed_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let [victim, pod] = ["victim", "pod"].map(|name| dir.path().join(name));
        fs::create_dir_all(victim.join("main")).unwrap();
        fs::write(victim.join("main/0.log.7"), "kept").unwrap();
        fs::create_dir(&pod).unwrap();
        std::os::unix::fs::symlink(victim.join("main"), pod.join("main")).unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("linked")).unwrap();
        for linked in ["pod/main", "linked/main"] {
            let linked = dir.path().join(linked);
            assert!(remove(&linked, 0).is_err() && LogDir::make(&linked).is_err(), "{}", linked.display());
        }
        assert!(victim.join("main/0.log.7").exists());
        remove(&victim.join("main"), 0).unwrap();
        assert!(!victim.join("main/0.log.7").exists());
    }

    #[test]
    fn what_stands_in_the_place_of_a_log_is_removed_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("0.log")).unwrap();
        fs::create_dir(dir.path().join("0.log.1")).unwrap();
        remove(dir.path(), 0).unwrap();
        assert!(victim.exists() && !dir.path().join("0.log").is_symlink());
    }
}
