use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use kernel::disk_usage::DiskUsage;
use kernel::{Dir, DirMode, Kind, Within};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::files::{LogFile, Stamp};

/// A log directory has at most so many entries: two for each file that is kept of each instance, and what a pod adds.
const MOST_ENTRIES: usize = 4096;
/// Bytes of a block in the metadata of a file.
const BLOCK: u64 = 512;

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
    /// Whether it is to become the log, and is not complete yet.
    is_temporary: bool,
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

    /// All entries with the name of a log, oldest first. What is dated later than tomorrow is none.
    ///
    /// # Errors
    /// If the directory cannot be read, or has more entries than a container's logs ever are.
    pub(super) fn named(&self) -> io::Result<Vec<Found>> {
        let latest = Stamp::latest();
        let mut named = self.all()?;
        named.retain(|found| !found.is_temporary && !found.log.is_after(latest));
        Ok(named)
    }

    /// The same, with files that are not complete yet, and whatever their date.
    fn all(&self) -> io::Result<Vec<Found>> {
        let found = |entry: &kernel::Entry| {
            let name = entry.name.to_str()?;
            let complete = LogFile::parsed(name);
            let log = complete.or_else(|| LogFile::of_temporary(name))?;
            Some(Found { log, kind: entry.kind, is_temporary: complete.is_none() })
        };
        let mut all: Vec<Found> = Vec::new();
        if self.visit(|entry| all.extend(found(entry)))?.is_break() {
            return Err(io::Error::other(format!(
                "it has more than {MOST_ENTRIES} entries: remove what is no log of the container"
            )));
        }
        all.sort_unstable_by_key(|found| found.log);
        Ok(all)
    }

    /// What its entries take of the disk, links not followed. Of a directory with more entries than a container's logs ever are,
    /// or with directories, it is what was counted at least.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn usage(&self) -> io::Result<DiskUsage> {
        let mut all = DiskUsage::default();
        let end = self.visit(|entry| {
            // One that cannot be looked up is gone.
            let bytes = self.blocks(&entry.name).unwrap_or(0).saturating_mul(BLOCK);
            all = all.and(DiskUsage { bytes, inodes: 1, at_least: entry.kind == Kind::Directory });
        })?;
        Ok(DiskUsage { at_least: all.at_least || end.is_break(), ..all })
    }

    fn blocks(&self, name: &OsStr) -> Option<u64> {
        let found = statat(self.0.as_ref()?, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT).ok()?;
        u64::try_from(found.st_blocks).ok()
    }

    /// Gives `each` one entry after the other. Breaks off if there are too many.
    fn visit(&self, mut each: impl FnMut(&kernel::Entry)) -> io::Result<ControlFlow<()>> {
        let Some(dir) = &self.0 else { return Ok(ControlFlow::Continue(())) };
        let mut count = 0;
        let broken_off = dir.visit(|entry| {
            count += 1;
            if count > MOST_ENTRIES {
                return ControlFlow::Break(());
            }
            each(&entry);
            ControlFlow::Continue(())
        });
        Ok(match broken_off.map_err(as_io)? {
            Some(()) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
    }

    /// The logs, oldest first. Only regular files are logs.
    pub(super) fn logs(&self) -> io::Result<Vec<LogFile>> {
        let named = self.named()?;
        Ok(named.into_iter().filter(|found| found.kind == Kind::File).map(|found| found.log).collect())
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
        Ok(File::from(openat(dir, log.temporary(), flags, Mode::from_raw_mode(0o640))?))
    }

    /// Gives such a file the name of the log.
    pub(super) fn rename_temporary(&self, log: LogFile) -> io::Result<()> {
        let dir = self.0.as_ref().ok_or(Errno::NOENT)?;
        Ok(renameat(dir, log.temporary(), dir, log.name())?)
    }

    /// Removes such a file, if there is one.
    pub(super) fn remove_temporary(&self, log: LogFile) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        match unlinkat(dir, log.temporary(), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Removes all such files of an instance.
    pub(super) fn remove_temporaries(&self, attempt: u32) -> io::Result<()> {
        let all = self.all()?.into_iter();
        let left = all.filter(|found| found.is_temporary && found.log.attempt == attempt);
        left.filter(|found| found.kind != Kind::Directory)
            .try_for_each(|found| self.remove_temporary(found.log))
    }

    pub(super) fn rename(&self, from: LogFile, to: LogFile) -> io::Result<()> {
        let dir = self.0.as_ref().ok_or(Errno::NOENT)?;
        Ok(renameat(dir, from.name(), dir, to.name())?)
    }
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

/// Removes all logs of a container instance, oldest first, and any other entry with the name of one, complete or not.
pub(crate) fn remove(dir: &Path, attempt: u32) -> io::Result<()> {
    let dir = LogDir::open(dir)?;
    dir.remove_temporaries(attempt)?;
    let all = dir.all()?.into_iter().filter(|found| found.kind != Kind::Directory);
    let mut of_instance = all.filter(|found| found.log.attempt == attempt);
    of_instance.try_for_each(|found| dir.remove(found.log))
}

/// What the logs of a container take of the disk; nothing if their directory does not exist. No link is followed, and a bounded
/// number of entries is read.
///
/// # Errors
/// If the directory cannot be read, or if a link is in its place.
pub fn disk_usage(dir: &Path) -> io::Result<DiskUsage> {
    LogDir::open(dir)?.usage()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A pod that could write to its log directory filled the memory of the agent with names.
    #[test]
    fn a_directory_with_too_many_entries_is_not_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (pod, victim) = (dir.path().join("pod"), dir.path().join("victim"));
        let logs = pod.join("main");
        fs::create_dir_all(&logs).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(logs.join("0.log"), vec![1; 8192]).unwrap();
        fs::write(victim.join("big"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(victim.join("big"), logs.join("1.log")).unwrap();
        let found = disk_usage(&logs).unwrap();
        assert_eq!((found.inodes, found.at_least), (2, false));
        assert!((8192..1 << 20).contains(&found.bytes), "{found:?}");
        for number in 0..MOST_ENTRIES {
            fs::write(logs.join(format!("x{number}")), "").unwrap();
        }
        let found = disk_usage(&logs).unwrap();
        assert!(found.at_least && found.inodes <= 4096, "{found:?}");
        let error = LogDir::open(&logs).unwrap().logs().unwrap_err().to_string();
        assert!(error.contains("more than 4096 entries"), "{error}");
        // A link in the place of the directory leads to others' files.
        std::os::unix::fs::symlink(&victim, pod.join("linked")).unwrap();
        assert!(disk_usage(&pod.join("linked")).is_err());
        assert_eq!(disk_usage(&pod.join("none")).unwrap(), DiskUsage::default());
    }

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

    /// What an interrupted compression had left stayed, and counted for nothing.
    #[test]
    fn a_file_that_is_not_complete_is_no_log_and_is_removed_with_the_instance() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["0.log.20260301-123005.gz.tmp", "1.log.20260301-123005.gz.tmp", "0.log.tmp", "0.log"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(LogDir::open(dir.path()).unwrap().logs().unwrap(), [LogFile::current(0)]);
        remove(dir.path(), 0).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0.log.tmp", "1.log.20260301-123005.gz.tmp"]);
    }

    /// A pod that could write to its log directory made a file of the year 9999: all later ones had no date that could be read.
    #[test]
    fn a_file_of_a_later_year_is_no_log_and_is_removed_with_the_instance() {
        let dir = tempfile::tempdir().unwrap();
        let (log, late) = (dir.path().join("0.log"), dir.path().join("0.log.99991231-235959"));
        [&log, &late].iter().for_each(|file| fs::write(file, "").unwrap());
        assert_eq!(LogDir::open(dir.path()).unwrap().logs().unwrap(), [LogFile::current(0)]);
        remove(dir.path(), 0).unwrap();
        assert!(!late.exists() && !log.exists());
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
