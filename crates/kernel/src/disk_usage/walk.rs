//! One walk through a directory tree.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

use super::DiskUsage;
use crate::{Dir, Error, Result};

/// As many of the deepest directories of a walk are open, besides the top: a container can make trees of any depth.
const MOST_OPEN: usize = 64;
/// The same while a walk is interrupted: there may be one for each volume of a node. It is not fewer, because a directory that is
/// closed is not found again if another is moved.
const MOST_OPEN_MEANWHILE: usize = 8;
/// Directories below this depth are not entered: the way to each is remembered.
const DEEPEST: usize = 1 << 17;
/// As many files with several names are remembered; beyond that, each name counts.
const MOST_LINKED: usize = 1 << 18;
/// How many entries are looked at between two looks at the clock.
const A_STRETCH: usize = 256;

/// A walk through a directory tree that counts bytes and inodes: each file once however many hard links it has, without
/// submounts and without files that vanish meanwhile. A process that writes there cannot redirect the walk. It can be
/// interrupted and resumed, and uses a bounded number of descriptors: few while it is interrupted.
pub(super) struct Walk {
    /// The directories that are being read, from the top down. The last is open, and so is the top.
    levels: Vec<Level>,
    usage: DiskUsage,
    /// Files with several names, by device and number.
    seen: HashSet<(u64, u64)>,
    /// Whether directories were moved meanwhile, so that something is not counted.
    has_lost: bool,
}

/// A directory that is being read.
struct Level {
    /// Closed while the walk is far below.
    dir: Option<rustix::fs::Dir>,
    /// Its device and number.
    identity: (u64, u64),
    /// Where to go on reading when it is open again.
    offset: i64,
}

impl Walk {
    /// At the beginning.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let top = Dir::open(path)?;
        let mut walk =
            Self { levels: vec![], usage: DiskUsage::default(), seen: HashSet::new(), has_lost: false };
        walk.enter(&top, OsStr::new(".")).map_err(|errno| Error::Open { path: path.to_owned(), errno })?;
        Ok(walk)
    }

    /// What was counted up to now.
    pub(super) fn usage(&self) -> DiskUsage {
        self.usage
    }

    /// Whether directories were moved while the walk was in them: what they have may be more than was counted.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Closes all directories but the top and the deepest, from which the others are found again.
    pub(super) fn interrupt(&mut self) {
        let closed = self.levels.len().saturating_sub(MOST_OPEN_MEANWHILE);
        self.levels.iter_mut().take(closed).skip(1).for_each(|level| level.dir = None);
    }

    /// Goes on until this moment.
    pub(super) fn go_on(&mut self, until: Instant) -> Progress {
        loop {
            for _ in 0..A_STRETCH {
                if self.levels.is_empty() {
                    return Progress::Done;
                }
                self.step();
            }
            if Instant::now() >= until {
                return Progress::Left;
            }
        }
    }

    /// The number of directories that are being read.
    #[cfg(test)]
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The next entry of the directory that was entered last.
    pub(super) fn step(&mut self) {
        let Some(level) = self.levels.last_mut() else { return };
        let Some(Ok(entry)) = level.dir.as_mut().and_then(rustix::fs::Dir::read) else {
            return self.leave();
        };
        level.offset = entry.offset();
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            // What cannot be looked at or entered is gone, or a mount.
            let _ = self.entry(name);
        }
    }

    fn entry(&mut self, name: &OsStr) -> std::result::Result<(), Errno> {
        let Some(dir) = self.levels.last().and_then(|level| level.dir.as_ref()) else { return Ok(()) };
        let dir = dir.fd()?;
        let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            let dir = rustix::io::fcntl_dupfd_cloexec(dir, 0)?;
            return self.enter(&dir, name);
        }
        let known = found.st_nlink > 1
            && self.seen.len() < MOST_LINKED
            && !self.seen.insert((found.st_dev, found.st_ino));
        if !known {
            self.add(&found);
        }
        Ok(())
    }

    fn enter(&mut self, dir: impl std::os::fd::AsFd, name: &OsStr) -> std::result::Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let entered = openat2(dir, name, flags, Mode::empty(), within)?;
        let found = statat(&entered, c"", AtFlags::EMPTY_PATH)?;
        let dir = Some(rustix::fs::Dir::new(entered)?);
        self.add(&found);
        if self.levels.len() >= DEEPEST {
            self.usage.at_least = true;
            return Ok(());
        }
        self.levels.push(Level { dir, identity: (found.st_dev, found.st_ino), offset: 0 });
        let closed = self.levels.len().checked_sub(MOST_OPEN + 1).filter(|index| *index > 0);
        if let Some(level) = closed.and_then(|index| self.levels.get_mut(index)) {
            level.dir = None;
        }
        Ok(())
    }

    /// Goes back to the directory above, which is opened by way of this one if it is closed. If that is not where it
    /// was, directories have been moved meanwhile: the walk goes on at the top, and what was left in between is
    /// not counted this time.
    fn leave(&mut self) {
        let Some(left) = self.levels.pop() else { return };
        let Some(above) = self.levels.last_mut().filter(|above| above.dir.is_none()) else { return };
        if left.dir.is_none_or(|below| above.open_from(&below).is_err()) {
            self.levels.truncate(1);
            self.has_lost = true;
        }
    }

    fn add(&mut self, stat: &rustix::fs::Stat) {
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        self.usage = self.usage.and(DiskUsage { bytes, inodes: 1, at_least: false });
    }
}

impl Level {
    fn open_from(&mut self, below: &rustix::fs::Dir) -> std::result::Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let above = openat(below.fd()?, "..", flags, Mode::empty())?;
        let found = statat(&above, c"", AtFlags::EMPTY_PATH)?;
        if (found.st_dev, found.st_ino) != self.identity {
            return Err(Errno::NOENT);
        }
        let mut dir = rustix::fs::Dir::new(above)?;
        dir.seek(self.offset)?;
        self.dir = Some(dir);
        Ok(())
    }
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("depth", &self.levels.len()).field("usage", &self.usage).finish()
    }
}

/// How far a walk has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// To its end.
    Done,
    /// Not there yet.
    Left,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    fn usage(path: &Path) -> DiskUsage {
        let mut walk = Walk::of(path).unwrap();
        assert_eq!(walk.go_on(Instant::now() + Duration::from_secs(600)), Progress::Done);
        walk.usage()
    }

    #[test]
    fn each_file_counts_once_and_no_link_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("big"), vec![1; 1 << 20]).unwrap();
        fs::write(inside.join("a/file"), vec![1; 8192]).unwrap();
        fs::hard_link(inside.join("a/file"), inside.join("a/b/again")).unwrap();
        symlink(&outside, inside.join("a/away")).unwrap();
        let found = usage(&inside);
        // in, a, b, file, away
        assert_eq!(found.inodes, 5);
        assert!((8192..1 << 20).contains(&found.bytes), "{found:?}");
    }

    #[test]
    fn a_walk_that_is_left_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..3 * A_STRETCH {
            fs::write(dir.path().join(name.to_string()), "").unwrap();
        }
        let mut walk = Walk::of(dir.path()).unwrap();
        let mut rounds = 0;
        while walk.go_on(Instant::now()) == Progress::Left {
            rounds += 1;
        }
        assert!(rounds >= 3, "{rounds}");
        assert_eq!(walk.usage().inodes, u64::try_from(3 * A_STRETCH + 1).unwrap());
    }

    /// Makes a tree with a file and a directory beside the way down at each level; the directory at its bottom.
    fn deep(top: &Path, depth: u32) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut dir = rustix::fs::open(top, flags, Mode::empty()).unwrap();
        for _ in 0..depth {
            for name in ["a", "way", "z"] {
                rustix::fs::mkdirat(&dir, name, Mode::RWXU).unwrap();
            }
            rustix::fs::openat(&dir, "file", OFlags::CREATE | OFlags::CLOEXEC, Mode::RUSR).unwrap();
            dir = openat(&dir, "way", flags, Mode::empty()).unwrap();
        }
        dir
    }

    /// A path of this depth is too long for any call: removed from below.
    fn remove(top: &Path) {
        let above = Dir::open(top.parent().unwrap()).unwrap();
        above.remove_tree(top.file_name().unwrap()).unwrap();
    }

    fn open(walk: &Walk) -> usize {
        walk.levels.iter().filter(|level| level.dir.is_some()).count()
    }

    /// A container hid what it wrote below 256 directories.
    #[test]
    fn what_lies_deep_is_counted_with_a_bounded_number_of_descriptors() {
        const DEPTH: u32 = 600;
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir(&top).unwrap();
        let bottom = deep(&top, DEPTH);
        let file =
            rustix::fs::openat(&bottom, "big", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR);
        fs::File::from(file.unwrap()).write_all(&vec![1; 8 << 20]).unwrap();
        let mut walk = Walk::of(&top).unwrap();
        let mut most = 0;
        while walk.go_on(Instant::now()) == Progress::Left {
            most = most.max(open(&walk));
            walk.interrupt();
            assert!(open(&walk) <= MOST_OPEN_MEANWHILE + 1, "{}", open(&walk));
        }
        assert_eq!((walk.usage().inodes, walk.has_lost()), (u64::from(4 * DEPTH + 2), false));
        assert!(walk.usage().bytes >= 8 << 20, "{:?}", walk.usage());
        assert!((1..=MOST_OPEN + 1).contains(&most), "{most}");
        remove(&top);
    }

    /// A directory that is moved while the walk is in it does not lead the walk out of the tree.
    #[test]
    fn a_directory_that_is_moved_meanwhile_does_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir(&top).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("big"), vec![1; 8 << 20]).unwrap();
        deep(&top, 300);
        let mut walk = Walk::of(&top).unwrap();
        while walk.levels.len() < 250 {
            walk.step();
        }
        // A level that is closed, with all that is below it.
        let moved = top.join(std::iter::repeat_n("way", 100).collect::<std::path::PathBuf>());
        fs::rename(moved, outside.join("way")).unwrap();
        assert_eq!(walk.go_on(Instant::now() + Duration::from_secs(600)), Progress::Done);
        assert!(walk.usage().bytes < 8 << 20, "{:?}", walk.usage());
        assert!(walk.has_lost());
        remove(&top);
        remove(&outside);
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(Walk::of(Path::new("/nowhere/at/all")).is_err());
    }
}
