use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{Dir, Stat};
use crate::{Error, Result};

/// A file of any kind, held open with `O_PATH`: later operations apply to this very file, whatever its path leads to
/// by then. It is not open for reading or writing.
#[derive(Debug)]
pub struct Node {
    fd: OwnedFd,
    /// For words only.
    path: PathBuf,
}

impl Node {
    /// What is at `path`, which the caller trusts; a last link is followed.
    pub fn open(path: &Path) -> Result<Self> {
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::Open { path: path.to_owned(), errno })?;
        Ok(Self::new(fd, path.to_owned()))
    }

    pub(crate) fn new(fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd, path }
    }

    /// What it is.
    pub fn stat(&self) -> Result<Stat> {
        Stat::of(self.fd.as_fd()).map_err(|errno| Error::Stat { path: self.path.clone(), errno })
    }

    /// The ID of the mount that it was found through, also where the filesystem does not answer.
    pub fn mount_id(&self) -> Result<u64> {
        Stat::mount_id_of(self.fd.as_fd()).map_err(|errno| Error::Stat { path: self.path.clone(), errno })
    }

    /// Opens it, to read or to write. A symbolic link cannot be opened.
    pub fn reopen(&self, flags: OFlags) -> Result<File> {
        let own = format!("/proc/thread-self/fd/{}", self.fd.as_raw_fd());
        rustix::fs::open(own, flags | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|errno| Error::Open { path: self.path.clone(), errno })
    }

    /// Opens it as a directory, through the mount that it was found by.
    pub fn open_dir(&self) -> Result<Dir> {
        Dir::at(self.fd.as_fd(), &self.path)
    }

    /// The path that it was found by, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
