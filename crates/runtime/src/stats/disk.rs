//! What a container has written.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kernel::Dir;
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
}

/// What lies below a directory, itself included: each file once however many names it has, nothing of what is
/// mounted below, and what vanishes meanwhile not at all. Whoever writes there meanwhile cannot lead the walk
/// elsewhere.
///
/// # Errors
/// If the directory cannot be opened.
pub fn usage(path: &Path) -> kernel::Result<Usage> {
    let mut count = Count { root: Dir::open(path)?, usage: Usage::default(), seen: HashSet::new() };
    // By their paths: a descriptor for each would let a wide tree use up all of ours.
    let mut waiting = vec![PathBuf::new()];
    while let Some(dir) = waiting.pop() {
        // What cannot be entered is gone, a mount, or deeper than a path can say.
        let _ = count.one(&dir, &mut waiting);
    }
    Ok(count.usage)
}

struct Count {
    root: Dir,
    usage: Usage,
    /// Files with several names, by device and number.
    seen: HashSet<(u64, u64)>,
}

impl Count {
    fn one(&mut self, rel: &Path, waiting: &mut Vec<PathBuf>) -> Result<(), Errno> {
        let dir = self.enter(rel)?;
        self.add(&statat(&dir, c"", AtFlags::EMPTY_PATH)?);
        for entry in rustix::fs::Dir::read_from(&dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let Ok(found) = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT) else {
                continue;
            };
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                waiting.push(rel.join(name));
            } else if found.st_nlink == 1 || self.seen.insert((found.st_dev, found.st_ino)) {
                self.add(&found);
            }
        }
        Ok(())
    }

    fn enter(&self, rel: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let rel = if rel.as_os_str().is_empty() { Path::new(".") } else { rel };
        openat2(&self.root, rel, flags, Mode::empty(), within)
    }

    fn add(&mut self, stat: &rustix::fs::Stat) {
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        self.usage = self.usage.and(Usage { bytes, inodes: 1 });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

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
        let found = usage(&inside).unwrap();
        // in, a, b, file, away
        assert_eq!(found.inodes, 5);
        assert!((8192..1 << 20).contains(&found.bytes), "{found:?}");
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(usage(Path::new("/nowhere/at/all")).is_err());
    }
}
