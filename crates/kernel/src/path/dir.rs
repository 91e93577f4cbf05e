use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, statat};
use rustix::io::Errno;

use super::resolve::{self, LastLink, Mounts, Walk, Within};
use super::{Kind, Node, Stat};
use crate::{Error, Result};

pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory held open. Whatever becomes of its path, this stays the directory that was opened, and
/// everything below it is reached from here.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// For words only.
    path: PathBuf,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// What it stood for when it was read.
    pub kind: Kind,
}

impl Dir {
    /// The directory at an absolute path that the caller trusts: its symbolic links are followed.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_absolute() {
            return Err(Error::NotAbsolute { path: path.to_owned() });
        }
        let fd = resolve::open(CWD, path, DIRECTORY, ResolveFlags::NO_MAGICLINKS)
            .map_err(|errno| Error::Open { path: path.to_owned(), errno })?;
        Ok(Self::new(fd, path.to_owned()))
    }

    /// The directory that a descriptor stands for, such as a detached mount's. `path` is for messages.
    pub fn at(fd: BorrowedFd<'_>, path: &Path) -> Result<Self> {
        let fd = rustix::fs::openat(fd, c".", DIRECTORY, Mode::empty())
            .map_err(|errno| Error::Open { path: path.to_owned(), errno })?;
        Ok(Self::new(fd, path.to_owned()))
    }

    pub(crate) fn new(fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd, path }
    }

    /// The directory at `rel`. An empty path is this one.
    pub fn open_below(&self, rel: &Path, within: Within) -> Result<Dir> {
        let fd = self.walk(rel, within, DIRECTORY)?;
        Ok(Self::new(fd, self.path.join(rel)))
    }

    /// Whatever is at `rel`, held but not opened: no device is touched, no pipe waited for.
    pub fn node(&self, rel: &Path, within: Within, last: LastLink) -> Result<Node> {
        let flags = match last {
            LastLink::Follow => OFlags::PATH,
            LastLink::Keep => OFlags::PATH | OFlags::NOFOLLOW,
        };
        Ok(Node::new(self.walk(rel, within, flags)?, self.path.join(rel)))
    }

    fn walk(&self, rel: &Path, within: Within, flags: OFlags) -> Result<OwnedFd> {
        let walk = Walk { from: self.as_fd(), within, mounts: Mounts::Cross };
        walk.open(rel, flags).map_err(|errno| self.below(rel, errno))
    }

    /// What is in it, without `.` and `..`, in the filesystem's order.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = vec![];
        let _: Option<()> = self.visit(|entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// Gives `each` one entry after the other, as [`entries`](Self::entries) has them, until it breaks off. Returns what it broke
    /// off with; `None` at the end. Of a directory that a container can fill, not all names fit into memory.
    pub fn visit<B>(&self, mut each: impl FnMut(Entry) -> ControlFlow<B>) -> Result<Option<B>> {
        let failed = |errno| Error::ReadDir { path: self.path.clone(), errno };
        let stream = rustix::fs::Dir::read_from(&self.fd).map_err(failed)?;
        for entry in stream {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if is_own(name) {
                continue;
            }
            let kind = match kind_of(self.as_fd(), name, entry.file_type()) {
                Ok(kind) => kind,
                // Gone since it was read.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(self.below(Path::new(name), errno)),
            };
            if let ControlFlow::Break(with) = each(Entry { name: name.to_owned(), kind }) {
                return Ok(Some(with));
            }
        }
        Ok(None)
    }

    /// What it is.
    pub fn stat(&self) -> Result<Stat> {
        Stat::of(self.as_fd()).map_err(|errno| Error::Stat { path: self.path.clone(), errno })
    }

    /// Syncs the directory: its names are on disk when this returns.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.fd).map_err(|errno| Error::Sync { path: self.path.clone(), errno })
    }

    /// The path that it was opened by, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn below(&self, rel: &Path, errno: Errno) -> Error {
        Error::Below { dir: self.path.clone(), path: rel.to_owned(), errno }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `.` and `..`.
pub(crate) fn is_own(name: &OsStr) -> bool {
    name == "." || name == ".."
}

/// Not every filesystem tells a name's kind with the name.
pub(crate) fn kind_of(dir: BorrowedFd<'_>, name: &OsStr, told: FileType) -> std::result::Result<Kind, Errno> {
    if told != FileType::Unknown {
        return Ok(Kind::of(told));
    }
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)?;
    Ok(Kind::of(FileType::from_raw_mode(found.st_mode)))
}
