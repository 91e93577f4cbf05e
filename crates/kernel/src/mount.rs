use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::child::last_errno;
use crate::{Error, Result, UsernsFd};

/// Whether a mount can be written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// As the filesystem allows.
    ReadWrite,
    /// Not at all.
    ReadOnly,
}

/// What becomes of the mounts below a cloned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submounts {
    /// Left out: their mount points are plain directories in the clone.
    Without,
    /// Cloned and idmapped too; one that cannot be idmapped fails the whole.
    Included,
}

/// A mount that is attached nowhere: no path leads to it, and it is gone when this is dropped.
#[derive(Debug)]
pub struct DetachedMount {
    fd: OwnedFd,
    /// What it is, for the words of an error.
    what: String,
}

impl DetachedMount {
    pub(crate) fn new(fd: OwnedFd, what: String) -> Self {
        Self { fd, what }
    }

    /// A clone of what is mounted at `source`, seen through the maps of `userns`: a file that is
    /// container ID's on disk shows as the host ID that it maps to.
    pub fn idmapped(source: &Path, userns: &UsernsFd, access: Access, submounts: Submounts) -> Result<Self> {
        let fd = clone_mount(source, submounts)?;
        idmap(fd.as_fd(), userns, access, submounts)
            .map_err(|errno| Error::Idmap { path: source.to_owned(), errno })?;
        Ok(Self::new(fd, format!("the idmapped mount of {}", source.display())))
    }

    /// Attaches it to `target`, where it stays until it is unmounted. A last component that is a
    /// symbolic link is not followed.
    pub fn attach(self, target: &Path) -> Result<()> {
        self.attach_to(target)
    }

    /// For one who goes on to name the mount by its descriptor, and then uses it up.
    pub(crate) fn attach_to(&self, target: &Path) -> Result<()> {
        move_mount(&self.fd, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .map_err(|errno| Error::Attach { what: self.what.clone(), target: target.to_owned(), errno })
    }
}

impl AsFd for DetachedMount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(crate) fn clone_mount(source: &Path, submounts: Submounts) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let recursive = match submounts {
        Submounts::Without => OpenTreeFlags::empty(),
        Submounts::Included => OpenTreeFlags::AT_RECURSIVE,
    };
    open_tree(CWD, source, flags | recursive)
        .map_err(|errno| Error::CloneMount { path: source.to_owned(), errno })
}

fn idmap(
    mount: BorrowedFd<'_>,
    userns: &UsernsFd,
    access: Access,
    submounts: Submounts,
) -> std::result::Result<(), Errno> {
    let read_only = match access {
        Access::ReadWrite => 0,
        Access::ReadOnly => libc::MOUNT_ATTR_RDONLY,
    };
    let recursive = match submounts {
        Submounts::Without => 0,
        Submounts::Included => libc::AT_RECURSIVE,
    };
    let attr = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP | read_only,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::try_from(userns.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?,
    };
    // SAFETY: both descriptors are borrowed for the whole call; the empty path ends in NUL; `attr`
    // is valid for reading the size that is given, and the kernel writes through none of them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}
