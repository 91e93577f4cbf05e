//! What a container has written.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;

/// What a tree takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes on the disk, as allocated.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

impl Usage {
    /// The two together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }

    /// The larger of each.
    pub(super) fn at_least(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), inodes: self.inodes.max(other.inodes) }
    }
}

/// As deep as a tree is followed: each level costs a descriptor.
const DEEPEST: usize = 256;
/// As many files with several names are remembered; beyond that, each name counts.
const MOST_LINKED: usize = 1 << 18;
/// How many entries are looked at between two looks at the clock.
const A_STRETCH: usize = 256;

/// A walk through what lies below a directory, itself included: each file once however many names it has,
/// nothing of what is mounted below, and what vanishes meanwhile not at all. Whoever writes there meanwhile
/// cannot lead the walk elsewhere. It can be left and gone on with.
pub(super) struct Walk {
    /// The directories that are being read, from the top down.
    open: Vec<rustix::fs::Dir>,
    usage: Usage,
    /// Files with several names, by device and number.
    seen: HashSet<(u64, u64)>,
}

impl Walk {
    /// At the beginning.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub(super) fn of(path: &Path) -> kernel::Result<Self> {
        let top = kernel::Dir::open(path)?;
        let mut walk = Self { open: vec![], usage: Usage::default(), seen: HashSet::new() };
        walk.enter(&top, OsStr::new("."))
            .map_err(|errno| kernel::Error::Open { path: path.to_owned(), errno })?;
        Ok(walk)
    }

    /// What was counted up to now.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Goes on until this moment.
    pub(super) fn go_on(&mut self, until: Instant) -> Progress {
        loop {
            for _ in 0..A_STRETCH {
                if self.open.is_empty() {
                    return Progress::Done;
                }
                self.step();
            }
            if Instant::now() >= until {
                return Progress::Left;
            }
        }
    }

    /// The next entry of the directory that was entered last.
    fn step(&mut self) {
        let Some(dir) = self.open.last_mut() else { return };
        let Some(Ok(entry)) = dir.read() else {
            self.open.pop();
            return;
        };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            // What cannot be looked at or entered is gone, a mount, or too deep.
            let _ = self.entry(name);
        }
    }

    fn entry(&mut self, name: &OsStr) -> Result<(), Errno> {
        let Some(dir) = self.open.last() else { return Ok(()) };
        let dir = dir.fd()?;
        let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            if self.open.len() >= DEEPEST {
                return Ok(());
            }
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

    fn enter(&mut self, dir: impl std::os::fd::AsFd, name: &OsStr) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let entered = openat2(dir, name, flags, Mode::empty(), within)?;
        self.add(&statat(&entered, c"", AtFlags::EMPTY_PATH)?);
        self.open.push(rustix::fs::Dir::new(entered)?);
        Ok(())
    }

    fn add(&mut self, stat: &rustix::fs::Stat) {
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        self.usage = self.usage.and(Usage { bytes, inodes: 1 });
    }
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("depth", &self.open.len()).field("usage", &self.usage).finish()
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
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    fn usage(path: &Path) -> Usage {
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

    #[test]
    fn a_tree_of_any_depth_takes_a_bounded_number_of_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 2 * DEEPEST).collect();
        fs::create_dir_all(dir.path().join(deep)).unwrap();
        assert_eq!(usage(dir.path()).inodes, u64::try_from(DEEPEST).unwrap());
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(Walk::of(Path::new("/nowhere/at/all")).is_err());
    }
}
