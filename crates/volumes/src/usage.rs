//! The disk usage of a volume.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use kernel::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// How deep a tree is walked at once: every level takes a descriptor.
const DEEPEST: usize = 128;
/// How many deeper directories are kept open until they are walked: each takes a descriptor, too.
const HELD_BACK: usize = 128;

/// The usage of a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes on the disk or in memory, as allocated.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
    /// Whether it is a lower bound: a very deep and wide tree is not counted completely.
    pub at_least: bool,
}

impl Usage {
    /// Whether it exceeds a limit; 0 is no limit. A lower bound exceeds every limit, or a pod could hide its usage.
    #[must_use]
    pub fn exceeds(self, limit: Option<u64>) -> bool {
        limit.filter(|limit| *limit > 0).is_some_and(|limit| self.at_least || self.bytes > limit)
    }
}

/// The usage of a directory and all below it: each file once however many names it has, without mounts below, and
/// without what vanishes meanwhile.
pub(crate) fn of(dir: &Dir) -> Result<Usage> {
    let mut count = Count { usage: Usage::default(), seen: HashSet::new(), held_back: vec![] };
    let failed = |errno| Error::io("count what is in", dir.path(), errno);
    let root = statat(dir, c"", AtFlags::EMPTY_PATH).map_err(failed)?;
    count.add(&root);
    count.walk(dir.as_fd(), DEEPEST).map_err(failed)?;
    while let Some(below) = count.held_back.pop() {
        count.walk(below.as_fd(), DEEPEST).map_err(failed)?;
    }
    Ok(count.usage)
}

struct Count {
    usage: Usage,
    /// Files with several names, by device and number.
    seen: HashSet<(u64, u64)>,
    /// Directories that are counted and not gone into yet.
    held_back: Vec<OwnedFd>,
}

impl Count {
    fn add(&mut self, stat: &rustix::fs::Stat) {
        self.usage.inodes += 1;
        self.usage.bytes = self.usage.bytes.saturating_add(u64::try_from(stat.st_blocks).unwrap_or(0) * 512);
    }

    fn walk(&mut self, dir: BorrowedFd<'_>, depth: usize) -> std::result::Result<(), Errno> {
        // All names first: one descriptor for each level, not two.
        for name in names(dir)? {
            match self.one(dir, &name, depth) {
                // Gone, or something else by now, or a mount.
                Ok(()) | Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn one(&mut self, dir: BorrowedFd<'_>, name: &OsStr, depth: usize) -> std::result::Result<(), Errno> {
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let below = enter(dir, name)?;
            self.add(&stat);
            return match depth.checked_sub(1) {
                Some(depth) => self.walk(below.as_fd(), depth),
                None => {
                    self.hold_back(below);
                    Ok(())
                }
            };
        }
        if stat.st_nlink == 1 || self.seen.insert((stat.st_dev, stat.st_ino)) {
            self.add(&stat);
        }
        Ok(())
    }

    fn hold_back(&mut self, dir: OwnedFd) {
        if self.held_back.len() < HELD_BACK {
            self.held_back.push(dir);
        } else {
            self.usage.at_least = true;
        }
    }
}

fn names(dir: BorrowedFd<'_>) -> std::result::Result<Vec<OsString>, Errno> {
    let mut names = vec![];
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn enter(dir: BorrowedFd<'_>, name: &OsStr) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(dir, name, flags, Mode::empty(), within)
}
