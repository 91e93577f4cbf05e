use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

use kernel::Dir;
use rustix::fs::{Gid, Mode as RawMode, OFlags, Uid, fchmod, fchown, fsync, mkdirat, openat, syncfs};
use rustix::io::Errno;

use super::error::Error;
use super::set::{Entry, FileSet};
use super::stamp::Stamp;
use super::step;
use crate::ownership::walk::open_below;

/// How many names are tried for a new set.
const NAMES: u32 = 100;
/// A set of more files and directories than this is synced with its whole filesystem, at once: every
/// single sync waits for the disk, and a thousand of them would take many seconds.
const ONE_BY_ONE: usize = 16;

const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes the set in a new directory of the volume and has it on disk, down to the directory itself.
/// Nothing leads to it yet. Unfinished, it is removed again.
pub(crate) fn new_set(volume: &Dir, wanted: &FileSet<'_>) -> Result<Stamp, Error> {
    let stamp = new_dir(volume)?;
    match fill(volume, &stamp, wanted) {
        Ok(()) => Ok(stamp),
        Err(error) => {
            // The first error is the one that matters; a leftover is removed by the next write.
            let _ = volume.remove_tree(stamp.as_str().as_ref());
            Err(error)
        }
    }
}

fn new_dir(volume: &Dir) -> Result<Stamp, Error> {
    let now = SystemTime::now();
    for attempt in 0..NAMES {
        let stamp = Stamp::at(now, attempt);
        match mkdirat(volume, stamp.as_str(), RawMode::RWXU) {
            Ok(()) => return Ok(stamp),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(step("make", volume, stamp.as_str())(errno)),
        }
    }
    Err(step("make", volume, Stamp::at(now, NAMES).as_str())(Errno::EXIST))
}

fn fill(volume: &Dir, stamp: &Stamp, wanted: &FileSet<'_>) -> Result<(), Error> {
    let at = |path: &str| format!("{stamp}/{path}");
    let failed = |did, path: &str| step(did, volume, &at(path));
    let root = open_below(volume.as_fd(), stamp.as_str().as_ref(), LISTED).map_err(failed("open", ""))?;
    let syncs = if wanted.entries.len() > ONE_BY_ONE { Syncs::Together } else { Syncs::OneByOne };
    let mut filling = Filling { root, parent: None, syncs };
    for (path, entry) in wanted.entries.iter().filter(|(path, _)| !path.is_empty()) {
        filling.add(path, entry).map_err(failed("write", path))?;
    }
    // Inner directories first: an outer one may be closed to us once it has its mode.
    for (path, entry) in wanted.entries.iter().rev().filter(|(_, entry)| entry.content.is_none()) {
        filling.finish_dir(path, entry).map_err(failed("finish", path))?;
    }
    match syncs {
        Syncs::Together => syncfs(&filling.root).map_err(failed("sync", "")),
        Syncs::OneByOne => Ok(()),
    }
}

/// How a set comes to be on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syncs {
    OneByOne,
    Together,
}

struct Filling<'a> {
    root: OwnedFd,
    /// The directory that was written to last, and its path.
    parent: Option<(&'a str, OwnedFd)>,
    syncs: Syncs,
}

impl<'a> Filling<'a> {
    fn add(&mut self, path: &'a str, entry: &Entry<'_>) -> Result<(), Errno> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if self.parent.as_ref().is_none_or(|(open, _)| *open != parent) {
            let dir = open_below(self.root.as_fd(), Path::new(parent), LISTED)?;
            self.parent = Some((parent, dir));
        }
        let Some((_, dir)) = &self.parent else { return Err(Errno::NOENT) };
        match entry.content {
            None => mkdirat(dir, name, RawMode::RWXU),
            Some(content) => {
                let file = new_file(dir, name, entry, content)?;
                self.sync(&file)
            }
        }
    }

    fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        match self.syncs {
            Syncs::OneByOne => fsync(file),
            Syncs::Together => Ok(()),
        }
    }

    fn finish_dir(&self, path: &str, entry: &Entry<'_>) -> Result<(), Errno> {
        let dir = open_below(self.root.as_fd(), Path::new(path), LISTED)?;
        own(&dir, entry)?;
        self.sync(&dir)
    }
}

/// The file is new (`O_EXCL`), so that the descriptor refers to nothing that another process has created.
fn new_file(dir: &OwnedFd, name: &str, entry: &Entry<'_>, content: &[u8]) -> Result<OwnedFd, Errno> {
    let mut file = std::fs::File::from(openat(dir, name, NEW, RawMode::RUSR | RawMode::WUSR)?);
    file.write_all(content).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    let file = OwnedFd::from(file);
    own(&file, entry)?;
    Ok(file)
}

/// The owner first: a change of owner takes setuid and setgid away.
fn own(file: &OwnedFd, entry: &Entry<'_>) -> Result<(), Errno> {
    let (user, group) = (Uid::from_raw(entry.owner.uid), Gid::from_raw(entry.owner.gid));
    fchown(file, Some(user), Some(group))?;
    fchmod(file, RawMode::from_raw_mode(entry.mode.bits()))
}
