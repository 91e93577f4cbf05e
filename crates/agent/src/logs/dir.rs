use std::fs::File;
use std::io;
use std::path::Path;

use kernel::{Dir, DirMode, Kind, Within};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::files::LogFile;

/// A container's log directory, held open, or one that is not there.
///
/// A pod may have it, or its own log directory above it, as a volume that it can write to. A link in the place of either
/// is an error, or root would work in a directory of the pod's choice; what is in it is reached from here, and only a
/// regular file is opened, or a pipe would be waited for.
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

    /// Makes it if it is not there.
    pub(crate) fn make(path: &Path) -> io::Result<()> {
        let (above, rel) = split(path);
        std::fs::create_dir_all(above)?;
        let like = DirMode { mode: 0o755, owner: None };
        top(above)?.make_dirs(rel, like).map(drop).map_err(as_io)
    }

    /// What has the name of a log, from the first.
    pub(super) fn all(&self) -> io::Result<Vec<Found>> {
        let Some(dir) = &self.0 else { return Ok(Vec::new()) };
        let found = |entry: kernel::Entry| {
            Some(Found { log: LogFile::parsed(entry.name.to_str()?)?, kind: entry.kind })
        };
        let mut all: Vec<Found> = dir.entries().map_err(as_io)?.into_iter().filter_map(found).collect();
        all.sort_unstable_by_key(|found| found.log);
        Ok(all)
    }

    /// The logs, from the first. What is no regular file is no log.
    pub(super) fn logs(&self) -> io::Result<Vec<LogFile>> {
        let all = self.all()?;
        Ok(all.into_iter().filter(|found| found.kind == Kind::File).map(|found| found.log).collect())
    }

    /// `None` if it is not there.
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

    /// What has this name; no link is followed. `None` if nothing has.
    pub(super) fn stat(&self, log: LogFile) -> io::Result<Option<Stat>> {
        let Some(dir) = &self.0 else { return Ok(None) };
        match statat(dir, log.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Nothing there is fine.
    pub(super) fn remove(&self, log: LogFile) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        match unlinkat(dir, log.name(), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    pub(super) fn rename(&self, from: LogFile, to: LogFile) -> io::Result<()> {
        let dir = self.0.as_ref().ok_or(Errno::NOENT)?;
        Ok(renameat(dir, from.name(), dir, to.name())?)
    }
}

/// The directory of all pods' logs, which only root can write to, and the way from there: the pod's and the container's.
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
