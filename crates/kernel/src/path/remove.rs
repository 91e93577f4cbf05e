use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, OFlags, StatxAttributes, StatxFlags, renameat, statx, unlinkat};
use rustix::io::Errno;

use super::dir::{DIRECTORY, is_own, kind_of};
use super::resolve::{Mounts, Walk, Within};
use super::{Dir, Kind};
use crate::{Error, MountTable, Result};

/// How deep a tree is walked at once. Deeper directories are first moved up, so that a tree of any depth takes no more
/// descriptors and no more stack.
const DEPTH: usize = 48;

/// How often a tree is walked that is not empty afterwards, because another process adds to it.
const PASSES_IN_VAIN: u32 = 64;

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Directories.
    pub directories: u64,
    /// Everything else.
    pub others: u64,
}

impl Dir {
    /// Removes what is at `name` with all below it; a missing one is no error. No symbolic link is followed.
    ///
    /// No mount is ever entered: if one is seen at the start, nothing at all is removed; one that
    /// appears meanwhile ends the removal, with nothing on it touched.
    pub fn remove_tree(&self, name: &OsStr) -> Result<Removed> {
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
            return Err(Error::NotAName { dir: self.path().to_owned(), name: name.to_owned() });
        };
        self.refuse_mounts(name)?;
        let mut removal = Removal { done: Removed::default(), moved_up: 0 };
        let place = Place { dir: self.as_fd(), path: self.path() };
        removal.remove_any(place, name)?;
        Ok(removal.done)
    }

    /// By the paths of the moment: it avoids removing half of a tree in the usual case. The kernel's own refusal is
    /// what counts.
    fn refuse_mounts(&self, name: &OsStr) -> Result<()> {
        let link = format!("/proc/thread-self/fd/{}", self.as_fd().as_raw_fd());
        let own =
            rustix::fs::readlink(&link, vec![]).map_err(|errno| Error::Open { path: link.into(), errno })?;
        let path = Path::new(OsStr::from_bytes(own.to_bytes())).join(name);
        match MountTable::read()?.under(&path).next() {
            Some(mount) => Err(Error::MountInTheWay { path: mount.point.clone() }),
            None => Ok(()),
        }
    }
}

/// A directory whose names are being removed.
#[derive(Clone, Copy)]
struct Place<'a> {
    dir: BorrowedFd<'a>,
    path: &'a Path,
}

impl Place<'_> {
    fn enter(self, name: &OsStr) -> std::result::Result<OwnedFd, Errno> {
        let walk = Walk { from: self.dir, within: Within::NoLinks, mounts: Mounts::StayOnThis };
        walk.open(Path::new(name), DIRECTORY | OFlags::NOFOLLOW)
    }

    fn failed(self, name: &OsStr, errno: Errno) -> Error {
        let path = self.path.join(name);
        match errno {
            // A mount point can neither be entered nor unlinked.
            Errno::XDEV => Error::MountInTheWay { path },
            Errno::BUSY if self.is_mount_point(name) => Error::MountInTheWay { path },
            errno => Error::Remove { path, errno },
        }
    }

    /// EBUSY has other causes, too: a file that a server still has open, for example.
    fn is_mount_point(self, name: &OsStr) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        statx(self.dir, name, flags, StatxFlags::empty())
            .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }
}

/// The outcome of removing one name.
#[derive(PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

struct Removal {
    done: Removed,
    moved_up: u64,
}

impl Removal {
    /// The name may refer to something else at each step.
    fn remove_any(&mut self, place: Place<'_>, name: &OsStr) -> Result<()> {
        let mut in_vain = 0;
        while in_vain < PASSES_IN_VAIN {
            let moved_before = self.moved_up;
            if self.unlink(place, name)? == Left::Nothing || self.remove_dir(place, name)? == Left::Nothing {
                return Ok(());
            }
            if self.moved_up == moved_before {
                in_vain += 1;
            }
        }
        Err(place.failed(name, Errno::NOTEMPTY))
    }

    fn unlink(&mut self, place: Place<'_>, name: &OsStr) -> Result<Left> {
        match unlinkat(place.dir, name, AtFlags::empty()) {
            Ok(()) => {
                self.done.others += 1;
                Ok(Left::Nothing)
            }
            Err(Errno::NOENT) => Ok(Left::Nothing),
            // A directory, as Linux reports it; it need not be one any more.
            Err(Errno::ISDIR) => Ok(Left::Something),
            // A directory, as POSIX reports it.
            Err(Errno::PERM) if is_dir(place, name) => Ok(Left::Something),
            Err(errno) => Err(place.failed(name, errno)),
        }
    }

    /// Empties the directory of this name and removes it.
    fn remove_dir(&mut self, place: Place<'_>, name: &OsStr) -> Result<Left> {
        let dir = match place.enter(name) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Left::Something),
            Err(errno) => return Err(place.failed(name, errno)),
        };
        let path = place.path.join(name);
        let top = Place { dir: dir.as_fd(), path: &path };
        self.empty(top, top, DEPTH)?;
        self.rmdir(place, name)
    }

    fn rmdir(&mut self, place: Place<'_>, name: &OsStr) -> Result<Left> {
        match unlinkat(place.dir, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                self.done.directories += 1;
                Ok(Left::Nothing)
            }
            Err(Errno::NOENT) => Ok(Left::Nothing),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(Left::Something),
            Err(errno) => Err(place.failed(name, errno)),
        }
    }

    /// One pass over a directory. `depth` is how many levels below it may be entered.
    fn empty(&mut self, place: Place<'_>, top: Place<'_>, depth: usize) -> Result<()> {
        let failed = |errno| Error::ReadDir { path: place.path.to_owned(), errno };
        for entry in rustix::fs::Dir::read_from(place.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if is_own(name) {
                continue;
            }
            match kind_of(place.dir, name, entry.file_type()) {
                Ok(Kind::Directory) if depth == 0 => self.move_up(place, name, top)?,
                Ok(Kind::Directory) => self.empty_below(place, name, top, depth - 1)?,
                Ok(_) => {
                    self.unlink(place, name)?;
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(place.failed(name, errno)),
            }
        }
        Ok(())
    }

    /// Empties the directory of this name and removes it. The next pass removes what appears meanwhile.
    fn empty_below(&mut self, place: Place<'_>, name: &OsStr, top: Place<'_>, depth: usize) -> Result<()> {
        let dir = match place.enter(name) {
            Ok(dir) => dir,
            // Something else by now: the next pass removes it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return Err(place.failed(name, errno)),
        };
        let path = place.path.join(name);
        self.empty(Place { dir: dir.as_fd(), path: &path }, top, depth)?;
        self.rmdir(place, name).map(drop)
    }

    fn move_up(&mut self, place: Place<'_>, name: &OsStr, top: Place<'_>) -> Result<()> {
        self.moved_up += 1;
        let above = OsString::from(format!(".removing-{}-{}", std::process::id(), self.moved_up));
        match renameat(place.dir, name, top.dir, &above) {
            // A name that is taken by chance is another one in the next pass.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(errno) => Err(place.failed(name, errno)),
        }
    }
}

fn is_dir(place: Place<'_>, name: &OsStr) -> bool {
    kind_of(place.dir, name, rustix::fs::FileType::Unknown) == Ok(Kind::Directory)
}
