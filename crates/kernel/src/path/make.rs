use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path};

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown, fstat, mkdirat};
use rustix::io::Errno;
use rustix::process::geteuid;

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

    /// Gives a directory that was just created its owner and permissions. Another user who may write here may have put an older
    /// one in its place: one that is not empty is not touched then. Where no other user may, another call of ours has made a
    /// directory in it.
    fn just_made(&self, name: &OsStr, like: DirMode) -> Result<Dir> {
        let walk = Walk { from: self.as_fd(), within: Within::NoLinks, mounts: Mounts::StayOnThis };
        let path = self.path().join(name);
        let fd = walk.open(Path::new(name), DIRECTORY).map_err(|errno| self.below(Path::new(name), errno))?;
        let made = Dir::new(fd, path);
        if !made.entries()?.is_empty() && !is_ours_alone(self.as_fd()) {
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

/// Whether only this user can put another directory in the place of one in this directory.
fn is_ours_alone(dir: BorrowedFd<'_>) -> bool {
    let others = Mode::WGRP | Mode::WOTH;
    fstat(dir).is_ok_and(|found| {
        found.st_uid == geteuid().as_raw() && !Mode::from_raw_mode(found.st_mode).intersects(others)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;

    use super::*;

    const LIKE: DirMode = DirMode { mode: 0o755, owner: None };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn many_who_make_directories_in_one_that_is_missing_all_succeed() {
        const MANY: usize = 16;
        for _ in 0..50 {
            let temp = tempfile::tempdir().unwrap();
            let dir = Dir::open(temp.path()).unwrap();
            let barrier = Barrier::new(MANY);
            std::thread::scope(|scope| {
                for number in 0..MANY {
                    let (dir, barrier) = (&dir, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        dir.make_dirs(Path::new(&format!("logs/{number}")), LIKE).unwrap();
                    });
                }
            });
            assert_eq!(mode(&temp.path().join("logs")), 0o755);
        }
    }

    #[test]
    fn where_others_may_write_a_directory_that_is_not_empty_keeps_its_permissions() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        let old = temp.path().join("old");
        fs::create_dir(&old).unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(old.join("secret"), "").unwrap();
        for others in [0o777, 0o770, 0o1777] {
            fs::set_permissions(temp.path(), fs::Permissions::from_mode(others)).unwrap();
            let refused = dir.just_made(OsStr::new("old"), LIKE);
            assert!(matches!(refused, Err(Error::Swapped { .. })), "{others:o}: {refused:?}");
            assert_eq!(mode(&old), 0o700);
        }
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
        dir.just_made(OsStr::new("old"), LIKE).unwrap();
        assert_eq!(mode(&old), 0o755);
    }
}
