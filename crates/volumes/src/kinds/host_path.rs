use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use kernel::{Dir, DirMode, LastLink, Node, Owner, Within};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, linkat, openat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;

use super::HostPathType;
use super::host_path_type::{OrCreate, in_words};
use crate::error::{Error, Result};
use types::VolumeName;

pub(crate) const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
/// How many names are tried for a file that is made aside.
const NAMES_ASIDE: u32 = 64;

/// A path of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPath {
    /// The path: absolute. Its symbolic links are followed.
    pub path: PathBuf,
    /// Its type.
    pub kind: HostPathType,
}

/// How a missing hostPath is created.
pub(crate) struct Creating<'a> {
    /// Its owner on disk.
    pub(crate) owner: Owner,
    /// Gets the last directory that exists and the path of those that are missing.
    pub(crate) announce: &'a mut dyn FnMut(&Dir, &Path) -> Result<()>,
}

impl HostPath {
    /// Opens the path; `None` where it does not exist and the type allows to create it.
    ///
    /// The type is checked on the open file, and that file is mounted later: a file that replaces it in between is
    /// never mounted unchecked.
    pub(crate) fn find(&self, volume: &VolumeName) -> Result<Option<Node>> {
        let found = root()?.node(self.below_root(volume)?, Within::AsRoot, LastLink::Follow);
        let node = match found {
            Ok(node) => node,
            Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {
                return match self.kind.or_create() {
                    OrCreate::Nothing => Err(Error::NoHostPath {
                        volume: volume.clone(),
                        path: self.path.clone(),
                        wanted: self.kind,
                    }),
                    _ => Ok(None),
                };
            }
            Err(error) => return Err(error.into()),
        };
        let found = node.stat()?.kind;
        if self.kind.allows(found) {
            return Ok(Some(node));
        }
        let (volume, path) = (volume.clone(), self.path.clone());
        Err(Error::OtherType { volume, path, wanted: self.kind, found: in_words(found) })
    }

    /// Opens the path, creating it if it is missing. What is created here belongs to the host, and stays.
    pub(crate) fn find_or_create(&self, volume: &VolumeName, creating: &mut Creating<'_>) -> Result<Node> {
        if let Some(node) = self.find(volume)? {
            return Ok(node);
        }
        match self.kind.or_create() {
            OrCreate::File => self.create_file(volume, creating.owner)?,
            _ => self.create_dirs(volume, creating)?,
        }
        self.find(volume)?.ok_or_else(|| Error::NoHostPath {
            volume: volume.clone(),
            path: self.path.clone(),
            wanted: self.kind,
        })
    }

    /// The nearest directory above it that is there.
    pub(crate) fn nearest(&self, volume: &VolumeName) -> Result<(Dir, PathBuf)> {
        let (root, path) = (root()?, self.below_root(volume)?);
        for there in path.ancestors().skip(1) {
            match root.open_below(there, Within::AsRoot) {
                Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {}
                dir => return Ok((dir?, path.strip_prefix(there).unwrap_or(path).to_owned())),
            }
        }
        Ok((root, path.to_owned()))
    }

    fn create_dirs(&self, volume: &VolumeName, creating: &mut Creating<'_>) -> Result<()> {
        let (dir, rest) = self.nearest(volume)?;
        (creating.announce)(&dir, &rest)?;
        dir.make_dirs(&rest, DirMode { mode: DIRECTORY_MODE, owner: Some(creating.owner) })?;
        Ok(())
    }

    fn create_file(&self, volume: &VolumeName, owner: Owner) -> Result<()> {
        let path = self.below_root(volume)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(self.bad(volume, "is the root directory"));
        };
        let parent = root()?.open_below(parent, Within::AsRoot)?;
        match new_file(&parent, name, owner) {
            // Another process created it first; whether it is a file is checked afterwards.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(Error::io("make", &self.path, errno)),
        }
    }

    fn below_root(&self, volume: &VolumeName) -> Result<&Path> {
        if self.path.components().any(|c| c == Component::ParentDir) {
            return Err(self.bad(volume, "has \"..\" in it"));
        }
        self.path.strip_prefix("/").map_err(|_| self.bad(volume, "is not absolute"))
    }

    fn bad(&self, volume: &VolumeName, why: &'static str) -> Error {
        Error::BadHostPath { volume: volume.clone(), path: self.path.clone(), why }
    }
}

fn root() -> Result<Dir> {
    Ok(Dir::open(Path::new("/"))?)
}

/// A new empty file that has its owner and mode from the moment it has this name.
fn new_file(dir: &Dir, name: &OsStr, owner: Owner) -> std::result::Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
    let file = match openat(dir, c".", flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        // Not every filesystem has files without names.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return new_file_aside(dir, name, owner),
        Err(errno) => return Err(errno),
    };
    give(&file, owner)?;
    let own = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    linkat(CWD, own, dir, name, AtFlags::SYMLINK_FOLLOW)
}

/// The same under a temporary name, which is left over only after a kill.
fn new_file_aside(dir: &Dir, name: &OsStr, owner: Owner) -> std::result::Result<(), Errno> {
    let (file, aside) = file_aside(dir)?;
    let named = give(&file, owner).and_then(|()| {
        match renameat_with(dir, &*aside, dir, name, RenameFlags::NOREPLACE) {
            // Not every filesystem can do that; all with links can do this.
            Err(Errno::INVAL) => linkat(dir, &*aside, dir, name, AtFlags::empty()),
            renamed => renamed,
        }
    });
    match unlinkat(dir, &*aside, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => named,
        Err(errno) => named.and(Err(errno)),
    }
}

fn file_aside(dir: &Dir) -> std::result::Result<(OwnedFd, String), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let mut answer = Err(Errno::EXIST);
    for number in 0..NAMES_ASIDE {
        let aside = format!(".wardlet-new-{}-{number}", std::process::id());
        answer = openat(dir, &*aside, flags, Mode::RUSR | Mode::WUSR).map(|file| (file, aside));
        if !matches!(answer, Err(Errno::EXIST)) {
            break;
        }
    }
    answer
}

fn give(file: &OwnedFd, owner: Owner) -> std::result::Result<(), Errno> {
    fchown(file, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?;
    fchmod(file, Mode::from_raw_mode(FILE_MODE))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_made_aside_gets_its_name_last_replaces_nothing_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let found = std::fs::metadata(home.path()).unwrap();
        let owner = Owner { uid: found.uid(), gid: found.gid() };
        let names = || dir.entries().unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        new_file_aside(&dir, "file".as_ref(), owner).unwrap();
        let made = std::fs::metadata(home.path().join("file")).unwrap();
        assert_eq!((made.mode() & 0o7777, made.uid(), made.len()), (FILE_MODE, owner.uid, 0));
        std::fs::write(home.path().join("file"), "text").unwrap();
        assert_eq!(new_file_aside(&dir, "file".as_ref(), owner), Err(Errno::EXIST));
        assert_eq!(std::fs::read_to_string(home.path().join("file")).unwrap(), "text");
        assert_eq!(names(), ["file"]);
        // One that a killed process of this number has left is not taken for ours.
        let left = format!(".wardlet-new-{}-0", std::process::id());
        std::fs::write(home.path().join(&left), "left").unwrap();
        new_file_aside(&dir, "other".as_ref(), owner).unwrap();
        assert_eq!(std::fs::read_to_string(home.path().join(&left)).unwrap(), "left");
        assert_eq!(names().len(), 3);
    }
}
