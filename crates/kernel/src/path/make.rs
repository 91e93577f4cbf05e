use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Component, Path};

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown, mkdirat};
use rustix::io::Errno;

use super::dir::DIRECTORY;
use super::resolve::{Mounts, Walk, Within};
use super::{Dir, Owner};
use crate::{Error, Result};

/// The mode of a directory until it has its owner and permissions: no other user can enter it before.
const AT_FIRST: Mode = Mode::RWXU;

/// What a new directory is given, whatever the umask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirMode {
    /// Its permissions, exactly.
    pub mode: u32,
    /// Its owner; that of any new directory there, by default.
    pub owner: Option<Owner>,
}

impl Dir {
    /// The directory at `rel`, made with all that are missing in the path. Those that are there stay as
    /// they are; a symbolic link, `.` or `..` in the path is an error.
    pub fn make_dirs(&self, rel: &Path, like: DirMode) -> Result<Dir> {
        let mut reached = self.open_below(Path::new(""), Within::NoLinks)?;
        for component in rel.components() {
            let Component::Normal(name) = component else {
                return Err(Error::NotAName {
                    dir: self.path().to_owned(),
                    name: rel.as_os_str().to_owned(),
                });
            };
            reached = match mkdirat(&reached, name, AT_FIRST) {
                Ok(()) => reached.just_made(name, like)?,
                Err(Errno::EXIST) => reached.open_below(Path::new(name), Within::NoLinks)?,
                Err(errno) => return Err(reached.make_failed(name, errno)),
            };
        }
        Ok(reached)
    }

    /// A new directory; one that is there already is an error.
    pub fn make_dir(&self, name: &OsStr, like: DirMode) -> Result<Dir> {
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
            return Err(Error::NotAName { dir: self.path().to_owned(), name: name.to_owned() });
        };
        mkdirat(self, name, AT_FIRST).map_err(|errno| self.make_failed(name, errno))?;
        self.just_made(name, like)
    }

    /// Gives a directory that was just created its owner and permissions. A process that may write here may have
    /// replaced it: a directory that is not empty is not touched.
    fn just_made(&self, name: &OsStr, like: DirMode) -> Result<Dir> {
        let walk = Walk { from: self.as_fd(), within: Within::NoLinks, mounts: Mounts::StayOnThis };
        let path = self.path().join(name);
        let fd = walk.open(Path::new(name), DIRECTORY).map_err(|errno| self.below(Path::new(name), errno))?;
        let made = Dir::new(fd, path);
        if !made.entries()?.is_empty() {
            return Err(Error::Swapped { path: made.path().to_owned() });
        }
        let owner = like.owner.map(|owner| (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid)));
        owner
            .map_or(Ok(()), |(user, group)| fchown(&made, Some(user), Some(group)))
            .and_then(|()| fchmod(&made, Mode::from_raw_mode(like.mode)))
            .map_err(|errno| self.make_failed(name, errno))?;
        Ok(made)
    }

    fn make_failed(&self, name: &OsStr, errno: Errno) -> Error {
        Error::MakeDir { path: self.path().join(name), errno }
    }
}
