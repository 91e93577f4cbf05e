use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Gid, Mode, StatxFlags, Uid, fchmod, fchown, mkdirat, statx};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

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
            let begun = Moment::now();
            reached = match mkdirat(&reached, name, AT_FIRST) {
                Ok(()) => reached.just_made(name, like, begun)?,
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
        let begun = Moment::now();
        mkdirat(self, name, AT_FIRST).map_err(|errno| self.make_failed(name, errno))?;
        self.just_made(name, like, begun)
    }

    /// Gives a directory that was just created its owner and permissions. A process that may write here may have put an
    /// older one in its place: one that is not empty is not touched, unless it was made since then. Another
    /// call that makes a directory in it makes it not empty, too.
    fn just_made(&self, name: &OsStr, like: DirMode, begun: Moment) -> Result<Dir> {
        let walk = Walk { from: self.as_fd(), within: Within::NoLinks, mounts: Mounts::StayOnThis };
        let path = self.path().join(name);
        let fd = walk.open(Path::new(name), DIRECTORY).map_err(|errno| self.below(Path::new(name), errno))?;
        let made = Dir::new(fd, path);
        if !made.entries()?.is_empty() && !is_untouched_since(begun, made.as_fd()) {
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

/// A time as files have it, which the kernel reads from its coarse clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    seconds: i64,
    nanoseconds: i64,
}

impl Moment {
    fn now() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
    }
}

/// Whether a directory was made since then, by this user and with the permissions of a new one. `false` where the filesystem
/// does not say when it was made.
fn is_untouched_since(begun: Moment, dir: BorrowedFd<'_>) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    let Ok(found) = statx(dir, c"", flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME) else { return false };
    let made = Moment { seconds: found.stx_btime.tv_sec, nanoseconds: found.stx_btime.tv_nsec.into() };
    StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME)
        && made >= begun
        && found.stx_uid == geteuid().as_raw()
        && Mode::from_raw_mode(u32::from(found.stx_mode) & 0o7777) == AT_FIRST
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;
    use std::time::Duration;

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
    fn a_directory_that_was_there_before_does_not_get_the_permissions_of_a_new_one() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        let make = |name: &str| {
            fs::create_dir(temp.path().join(name)).unwrap();
            fs::set_permissions(temp.path().join(name), fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(temp.path().join(name).join("secret"), "").unwrap();
        };
        make("old");
        // Longer than a tick of the coarse clock.
        std::thread::sleep(Duration::from_millis(50));
        let begun = Moment::now();
        let refused = dir.just_made(OsStr::new("old"), LIKE, begun);
        assert!(matches!(refused, Err(Error::Swapped { .. })), "{refused:?}");
        assert_eq!(mode(&temp.path().join("old")), 0o700);
        make("new");
        dir.just_made(OsStr::new("new"), LIKE, begun).unwrap();
        assert_eq!(mode(&temp.path().join("new")), 0o755);
        // It has other permissions already: it is not one of ours that is being made.
        assert!(matches!(dir.just_made(OsStr::new("new"), LIKE, begun), Err(Error::Swapped { .. })));
    }
}
