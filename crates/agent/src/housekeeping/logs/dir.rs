use std::fs::File;
use std::io;
use std::path::Path;

use kernel::{Dir, DirMode, Kind, Within};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::files::LogFile;

/// An open descriptor of a container's log directory, or of none if it does not exist.
///
/// A pod may have this directory, or the pod's log directory above it, as a writable volume. A symbolic link
/// in the place of either is an error, because root would then work in a directory of the pod's choice. Files
/// are opened relative to the descriptor, and only if they are regular: a FIFO would block.
#[derive(Debug)]
pub(crate) struct LogDir(Option<Dir>);

/// A name in the directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) log: LogFile,
    pub(super) kind: Kind,
}

impl LogDir {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (above, rel) = split(path);
        let opened = top(above).and_then(|top| top.open_below(rel, Within::NoLinks).map_err(as_io));
        match opened {
            Ok(dir) => Ok(Self(Some(dir))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }

    /// Creates the directory if it does not exist.
    pub(crate) fn make(path: &Path) -> io::Result<()> {
        let (above, rel) = split(path);
        std::fs::create_dir_all(above)?;
        let like = DirMode { mode: 0o755, owner: None };
        top(above)?.make_dirs(rel, like).map(drop).map_err(as_io)
    }

    /// All entries with the name of a log, oldest first.
    pub(super) fn all(&self) -> io::Result<Vec<Found>> {
        let Some(dir) = &self.0 else { return Ok(Vec::new()) };
        let found = |entry: kernel::Entry| {
            Some(Found { log: LogFile::parsed(entry.name.to_str()?)?, kind: entry.kind })
        };
        let mut all: Vec<Found> = dir.entries().map_err(as_io)?.into_iter().filter_map(found).collect();
        all.sort_unstable_by_key(|found| found.log);
        Ok(all)
    }

    /// The logs, oldest first. Only regular files are logs.
    pub(super) fn logs(&self) -> io::Result<Vec<LogFile>> {
        let all = self.all()?;
        Ok(all.into_iter().filter(|found| found.kind == Kind::File).map(|found| found.log).collect())
    }

    /// Opens a log for reading; `None` if it does not exist.
    pub(super) fn read(&self, log: LogFile) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Some(dir) = &self.0 else { return Ok(None) };
        let file = match openat(dir, log.name(), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened?),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(Some(file))
    }

    /// lstat(2) of a log; `None` if it does not exist.
    pub(super) fn stat(&self, log: LogFile) -> io::Result<Option<Stat>> {
        let Some(dir) = &self.0 else { return Ok(None) };
        match statat(dir, log.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Removes a log. A log that does not exist is no error.
    pub(super) fn remove(&self, log: LogFile) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        match unlinkat(dir, log.name(), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Makes a new file beside a log that it is to become. One that an earlier process has left is replaced.
    pub(super) fn create_temporary(&self, log: LogFile) -> io::Result<File> {
        self.remove_temporary(log)?;
        let dir = self.0.as_ref().ok_or(Errno::NOENT)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(dir, temporary(log), flags, Mode::from_raw_mode(0o640))?))
    }

    /// Gives such a file the name of the log.
    pub(super) fn rename_temporary(&self, log: LogFile) -> io::Result<()> {
        let dir = self.0.as_ref().ok_or(Errno::NOENT)?;
        Ok(renameat(dir, temporary(log), dir, log.name())?)
    }

    /// Removes such a file, if there is one.
    pub(super) fn remove_temporary(&self, log: LogFile) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        match unlinkat(dir, temporary(log), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    pub(super) fn rename(&self, from: LogFile, to: LogFile) -> io::Result<()> {
        let dir = self.0.as_ref().ok_or(Errno::NOENT)?;
        Ok(renameat(dir, from.name(), dir, to.name())?)
    }
}

/// The name of a file that is not complete yet.
fn temporary(log: LogFile) -> String {
    format!("{}.tmp", log.name())
}

/// Splits a path into the directory of all pods' logs, which only root can write to, and the relative path of
/// the pod's and the container's directory.
fn split(path: &Path) -> (&Path, &Path) {
    let above = path.ancestors().nth(2).unwrap_or(path);
    (above, path.strip_prefix(above).unwrap_or(Path::new("")))
}

fn top(path: &Path) -> io::Result<Dir> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Dir::open(&std::path::absolute(path)?).map_err(as_io)
}

fn as_io(error: kernel::Error) -> io::Error {
    match error {
        kernel::Error::Open { errno: Errno::NOENT, .. }
        | kernel::Error::Below { errno: Errno::NOENT, .. } => Errno::NOENT.into(),
        error => io::Error::other(error),
    }
}

/// Removes all logs of a container instance, oldest first, and any other entry with the name of one.
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
    /// A pod that could write to its log directory made root remove files of the host.
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
