//! The directory that a layer's entries become.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use kernel::{Dir, DirMode, Owner};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod,
    fchown, fsetxattr, futimens, linkat, makedev, mknodat, openat, symlinkat, unlinkat, utimensat,
};

use super::content;
use super::entry::{Entry, Modified, What};
use super::highest::Highest;
use super::lowers::Lowers;
use super::name::EntryPath;
use super::overlay::{Found, look, make_opaque, white_out};
use super::place::{Missing, Places};
use super::read::Sink;
use crate::fault::Fault;

const NO_FOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

/// A layer that is being unpacked.
pub(crate) struct Tree<'a> {
    places: Places,
    /// Gets the number of bytes as they are written, and every entry.
    ticks: &'a mut dyn Ticks,
    highest: Highest,
    /// Directories get their times last: each file in them changes it.
    directories: Vec<(PathBuf, Modified)>,
}

/// A file to create: a name in an open directory, as the `*at` system calls take it.
#[derive(Clone, Copy)]
struct NewFile<'a> {
    parent: &'a Dir,
    name: &'a OsStr,
}

/// An observer of the unpacking, which can cancel it.
pub(crate) trait Ticks {
    /// So many bytes will be on disk in addition.
    fn bytes(&mut self, count: u64) -> Result<(), Fault>;
    /// One more entry.
    fn entry(&mut self) -> Result<(), Fault>;
}

impl<'a> Tree<'a> {
    pub(crate) fn new(root: Dir, lowers: Lowers, ticks: &'a mut dyn Ticks) -> Self {
        Self {
            places: Places::new(root, lowers),
            ticks,
            highest: Highest::default(),
            directories: Vec::new(),
        }
    }

    /// Gives directories their times, and has everything on disk.
    pub(crate) fn finish(self) -> Result<Highest, Fault> {
        for (path, modified) in self.directories.iter().rev() {
            // One that was replaced by a later entry is no directory any more.
            if let Ok(dir) = self.places.root().open_below(path, kernel::Within::NoLinks) {
                futimens(dir.as_fd(), &times(*modified)).map_err(Fault::refused("give it its time"))?;
            }
        }
        rustix::fs::syncfs(self.places.root().as_fd()).map_err(Fault::refused("have it on disk"))?;
        Ok(self.highest)
    }

    fn directory(&mut self, entry: &Entry) -> Result<(), Fault> {
        let (path, dir) = match entry.path.split() {
            None => self.places.directory(&[], Missing::Make)?,
            Some((parents, name)) => {
                let (path, parent) = self.places.directory(parents, Missing::Make)?;
                let dir = self.directory_at(&parent, name)?;
                (path.join(name), dir)
            }
        };
        own(&dir, entry)?;
        keep_xattrs(&dir, entry)?;
        self.directories.push((path, entry.modified));
        Ok(())
    }

    fn directory_at(&mut self, parent: &Dir, name: &OsStr) -> Result<Dir, Fault> {
        let found = look(parent, name).map_err(Fault::refused("look for it"))?;
        if found == Found::Directory {
            return parent
                .open_below(Path::new(name), kernel::Within::NoLinks)
                .map_err(|error| Fault::Refused { what: "open it", why: error.to_string() });
        }
        self.clear(parent, name, found)?;
        let like = DirMode { mode: 0o700, owner: Some(Owner::ROOT) };
        let dir = parent
            .make_dir(name, like)
            .map_err(|error| Fault::Refused { what: "make it", why: error.to_string() })?;
        if found == Found::Whiteout {
            make_opaque(&dir).map_err(Fault::refused("make it opaque"))?;
        }
        Ok(dir)
    }

    /// Removes what an earlier entry has put there. Never truncates: other names may stand for the same.
    fn clear(&mut self, parent: &Dir, name: &OsStr, found: Found) -> Result<(), Fault> {
        if found != Found::Nothing {
            // A directory, or a link to one, may be on the way to the last entry's.
            self.places.forget();
        }
        match found {
            Found::Nothing => Ok(()),
            Found::Directory => {
                let removed = parent.remove_tree(name).map(|_| ());
                removed.map_err(|error| Fault::Refused { what: "replace it", why: error.to_string() })
            }
            _ => unlinkat(parent.as_fd(), name, AtFlags::empty()).map_err(Fault::refused("replace it")),
        }
    }

    fn opaque(&mut self, path: &EntryPath) -> Result<(), Fault> {
        let (_, dir) = self.places.directory(path.names(), Missing::Make)?;
        make_opaque(&dir).map_err(Fault::refused("make it opaque"))
    }

    /// What this layer itself has there stays: a whiteout is only about the layers below.
    fn whiteout(&mut self, parent: &Dir, name: &OsStr) -> Result<(), Fault> {
        match look(parent, name).map_err(Fault::refused("look for it"))? {
            Found::Nothing => white_out(parent, name).map_err(Fault::refused("white it out")),
            Found::Directory => {
                let dir = self.directory_at(parent, name)?;
                make_opaque(&dir).map_err(Fault::refused("make it opaque"))
            }
            _ => Ok(()),
        }
    }

    fn file(
        &mut self,
        at: NewFile<'_>,
        entry: &Entry,
        content: &mut dyn Read,
        size: u64,
    ) -> Result<(), Fault> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(at.parent.as_fd(), at.name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(Fault::refused("make it"))?;
        let file = File::from(file);
        content::copy(content, &file, size, &mut |bytes| self.ticks.bytes(bytes))?;
        own(&file, entry)?;
        keep_xattrs(&file, entry)?;
        futimens(&file, &times(entry.modified)).map_err(Fault::refused("give it its time"))
    }

    /// The target is looked for in this layer only, and its last name is not followed.
    fn hard_link(&mut self, at: NewFile<'_>, target: &EntryPath) -> Result<(), Fault> {
        let refused = |why| Fault::HardLink { target: target.to_path().display().to_string(), why };
        let Some((parents, name)) = target.split() else { return Err(refused("is the image itself")) };
        let (_, parent) = match self.places.directory(parents, Missing::Fail) {
            Err(Fault::NoDirectory { .. }) => return Err(refused("is not in this layer so far")),
            found => found?,
        };
        match look(&parent, name).map_err(Fault::refused("look for its target"))? {
            Found::Nothing => return Err(refused("is not in this layer so far")),
            Found::Directory => return Err(refused("is a directory")),
            Found::Whiteout => return Err(refused("is a whiteout")),
            Found::Symlink | Found::Other(_) => {}
        }
        linkat(parent.as_fd(), name, at.parent.as_fd(), at.name, AtFlags::empty())
            .map_err(Fault::refused("link it"))
    }

    fn symlink(&mut self, at: NewFile<'_>, entry: &Entry, target: &[u8]) -> Result<(), Fault> {
        symlinkat(target, at.parent.as_fd(), at.name).map_err(Fault::refused("make it"))?;
        own_at(at, entry)?;
        utimensat(at.parent.as_fd(), at.name, &times(entry.modified), NO_FOLLOW)
            .map_err(Fault::refused("give it its time"))
    }

    fn special(&mut self, at: NewFile<'_>, entry: &Entry, kind: FileType, device: u64) -> Result<(), Fault> {
        mknodat(at.parent.as_fd(), at.name, kind, Mode::RUSR, device).map_err(Fault::refused("make it"))?;
        own_at(at, entry)?;
        // Just created, in a directory that only this process uses: no link can replace it.
        chmodat(at.parent.as_fd(), at.name, Mode::from_raw_mode(entry.mode), AtFlags::empty())
            .map_err(Fault::refused("set its permissions"))?;
        utimensat(at.parent.as_fd(), at.name, &times(entry.modified), NO_FOLLOW)
            .map_err(Fault::refused("give it its time"))
    }

    fn other(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Fault> {
        let Some((parents, name)) = entry.path.split() else { return Err(Fault::Name) };
        let (_, parent) = self.places.directory(parents, Missing::Make)?;
        if entry.what == What::Whiteout {
            return self.whiteout(&parent, name);
        }
        if entry.what == What::HardLink(entry.path.clone()) {
            return Err(Fault::HardLink {
                target: entry.path.to_path().display().to_string(),
                why: "is itself",
            });
        }
        let found = look(&parent, name).map_err(Fault::refused("look for it"))?;
        self.clear(&parent, name, found)?;
        let at = NewFile { parent: &parent, name };
        match &entry.what {
            What::File(size) => self.file(at, entry, content, *size),
            What::Symlink(target) => self.symlink(at, entry, target),
            What::HardLink(target) => self.hard_link(at, target),
            What::Device(major, minor) => {
                self.special(at, entry, FileType::CharacterDevice, makedev(*major, *minor))
            }
            What::Fifo => self.special(at, entry, FileType::Fifo, 0),
            What::Directory | What::Whiteout | What::Opaque => Ok(()),
        }
    }
}

impl Sink for Tree<'_> {
    fn entry(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Fault> {
        self.ticks.entry()?;
        match &entry.what {
            What::Directory => self.directory(entry)?,
            What::Opaque => return self.opaque(&entry.path),
            _ => self.other(entry, content)?,
        }
        if !matches!(entry.what, What::Whiteout | What::HardLink(_)) {
            self.highest.see(entry.owner, &entry.path.to_path());
        }
        Ok(())
    }
}

/// The owner first: it takes set-user-ID bits and capabilities away.
fn own(file: &impl AsFd, entry: &Entry) -> Result<(), Fault> {
    let (user, group) = (Uid::from_raw(entry.owner.uid), Gid::from_raw(entry.owner.gid));
    fchown(file, Some(user), Some(group)).map_err(Fault::refused("give it its owner"))?;
    fchmod(file, Mode::from_raw_mode(entry.mode)).map_err(Fault::refused("set its permissions"))
}

fn own_at(at: NewFile<'_>, entry: &Entry) -> Result<(), Fault> {
    let (user, group) = (Uid::from_raw(entry.owner.uid), Gid::from_raw(entry.owner.gid));
    chownat(at.parent.as_fd(), at.name, Some(user), Some(group), NO_FOLLOW)
        .map_err(Fault::refused("give it its owner"))
}

fn keep_xattrs(file: &impl AsFd, entry: &Entry) -> Result<(), Fault> {
    for (name, value) in &entry.xattrs {
        fsetxattr(file, name.as_str(), value, XattrFlags::empty())
            .map_err(Fault::refused("set its extended attributes"))?;
    }
    Ok(())
}

fn times(modified: Modified) -> Timestamps {
    let time = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}
