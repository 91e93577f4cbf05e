use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use serde::Serialize;

use super::context;
use super::syscalls::{mount_setattr, open_tree_attr};
use super::{Access, Attributes, MountTable};
use crate::path::{Dir, Stat};
use crate::{Error, Result, UsernsFd};

/// What happens to the mounts below a cloned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Submounts {
    /// Left out: their mount points are plain directories in the clone.
    #[default]
    Without,
    /// Cloned and changed too; one that cannot be idmapped fails the whole.
    Included,
}

/// What a mount is cloned from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A path that the caller trusts; a last component that is a link is followed.
    Path(&'a Path),
    /// An open file, such as a [`crate::Node`]: no process can replace it.
    Node(BorrowedFd<'a>),
}

impl Source<'_> {
    /// For words.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) => (*path).to_owned(),
            Self::Node(fd) => path_of(*fd),
        }
    }
}

/// What a mount is attached to.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// A path; a last component that is a symbolic link is not followed.
    Path(&'a Path),
    /// Something held open, such as a [`crate::Node`]: this very file or directory.
    Node(BorrowedFd<'a>),
}

impl Target<'_> {
    /// For words.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) => (*path).to_owned(),
            Self::Node(fd) => path_of(*fd),
        }
    }
}

/// A detached mount: no path leads to it, and it ends when this is dropped.
#[derive(Debug)]
pub struct DetachedMount {
    fd: OwnedFd,
    /// What it is, for error messages.
    what: String,
    /// The path of the source, and the ID of the mount there.
    origin: Option<(PathBuf, u64)>,
    /// Whether it was idmapped here.
    mapped: bool,
    /// The label that all its files must have once it is attached.
    context: Option<String>,
}

impl DetachedMount {
    pub(crate) fn new(fd: OwnedFd, what: String) -> Self {
        Self { fd, what, origin: None, mapped: false, context: None }
    }

    pub(crate) fn labelled(self, context: Option<&str>) -> Self {
        Self { context: context.map(str::to_owned), ..self }
    }

    /// A clone of the mount that `source` is on, from `source` down. It has the propagation of its original.
    pub fn clone_of(source: Source<'_>, submounts: Submounts) -> Result<Self> {
        let path = source.path();
        let failed = |errno| Error::CloneMount { path: path.clone(), errno };
        let fd = match source {
            Source::Path(path) => tree(CWD, path, submounts),
            Source::Node(fd) => tree(fd, Path::new(""), submounts),
        }
        .map_err(failed)?;
        let original = match source {
            Source::Path(path) => crate::Node::open(path)?.mount_id()?,
            Source::Node(fd) => Stat::mount_id_of(fd).map_err(failed)?,
        };
        let what = format!("the clone of {}", path.display());
        Ok(Self { fd, what, origin: Some((path, original)), mapped: false, context: None })
    }

    /// A clone of what is mounted at `source`, seen through the maps of `userns`: a file that is
    /// container ID's on disk shows as the host ID that it maps to.
    pub fn idmapped(source: &Path, userns: &UsernsFd, access: Access, submounts: Submounts) -> Result<Self> {
        let mut clone = Self::clone_of(Source::Path(source), submounts)?;
        clone.set(&Attributes { idmap: Some(userns), access, submounts, ..Attributes::default() })?;
        Ok(clone)
    }

    /// Changes it. A mount that is idmapped already gets the new map instead of its own where the kernel
    /// can do that (Linux 6.15).
    pub fn set(&mut self, attributes: &Attributes<'_>) -> Result<()> {
        if attributes.is_nothing() {
            return Ok(());
        }
        match mount_setattr(self.fd.as_fd(), attributes) {
            Ok(()) => {}
            Err(Errno::PERM) if attributes.idmap.is_some() => self.replace_map(attributes)?,
            Err(errno) => return Err(self.set_failed(attributes, errno)),
        }
        if attributes.idmap.is_some() {
            self.mapped = true;
            self.what = format!("the idmapped mount of {}", self.origin_path().display());
        }
        Ok(())
    }

    fn replace_map(&mut self, attributes: &Attributes<'_>) -> Result<()> {
        match open_tree_attr(self.fd.as_fd(), &CString::default(), attributes) {
            Ok(clone) => {
                self.fd = clone;
                Ok(())
            }
            // Too old for the call, or (it came to clones of clones only later) for this use of it.
            Err(Errno::NOSYS | Errno::INVAL) if self.mapped || self.origin_is_idmapped() => {
                Err(Error::AlreadyIdmapped { path: self.origin_path() })
            }
            Err(Errno::NOSYS) => Err(self.set_failed(attributes, Errno::PERM)),
            Err(errno) => Err(self.set_failed(attributes, errno)),
        }
    }

    fn origin_is_idmapped(&self) -> bool {
        let Some((_, id)) = &self.origin else { return false };
        MountTable::read().is_ok_and(|table| table.by_id(*id).is_some_and(super::MountEntry::idmapped))
    }

    fn origin_path(&self) -> PathBuf {
        self.origin.as_ref().map_or_else(|| PathBuf::from(&self.what), |(path, _)| path.clone())
    }

    fn set_failed(&self, attributes: &Attributes<'_>, errno: Errno) -> Error {
        match attributes.idmap {
            Some(_) => Error::Idmap { path: self.origin_path(), errno },
            None => Error::SetAttributes { what: self.what.clone(), errno },
        }
    }

    /// Its root, opened: what is written there exists before any other process can see the mount.
    pub fn root(&self) -> Result<Dir> {
        Dir::at(self.fd.as_fd(), Path::new(&self.what))
    }

    /// Attaches it to `target`, where it stays until it is unmounted. A last component that is a
    /// symbolic link is not followed.
    pub fn attach(self, target: &Path) -> Result<()> {
        self.attach_to(Target::Path(target))
    }

    /// Attaches it to the file or directory that `target` refers to, whatever its path leads to by now.
    pub fn attach_at(self, target: BorrowedFd<'_>) -> Result<()> {
        self.attach_to(Target::Node(target))
    }

    /// For a caller that goes on to name the mount by its descriptor, and then consumes it.
    pub(crate) fn attach_to(&self, target: Target<'_>) -> Result<()> {
        let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        match target {
            Target::Path(path) => move_mount(&self.fd, c"", CWD, path, from),
            Target::Node(fd) => {
                move_mount(&self.fd, c"", fd, c"", from | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH)
            }
        }
        .map_err(|errno| Error::Attach { what: self.what.clone(), target: target.path(), errno })?;
        match &self.context {
            Some(wanted) => context::verify_mount(self.fd.as_fd(), &target.path(), wanted),
            None => Ok(()),
        }
    }
}

/// What it is, as text.
impl fmt::Display for DetachedMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl AsFd for DetachedMount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(crate) fn tree(
    from: BorrowedFd<'_>,
    path: &Path,
    submounts: Submounts,
) -> std::result::Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let recursive = match submounts {
        Submounts::Without => OpenTreeFlags::empty(),
        Submounts::Included => OpenTreeFlags::AT_RECURSIVE,
    };
    let empty = match path.as_os_str().as_bytes() {
        [] => OpenTreeFlags::AT_EMPTY_PATH,
        _ => OpenTreeFlags::empty(),
    };
    open_tree(from, path, flags | recursive | empty)
}

/// By what path an open file is reached now, for messages.
fn path_of(fd: BorrowedFd<'_>) -> PathBuf {
    let link = PathBuf::from(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()));
    std::fs::read_link(&link).unwrap_or(link)
}
