//! The two calls that no library has yet.

use std::ffi::{CString, c_int, c_long};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::{Access, Attributes, Submounts};
use crate::userns::last_errno;

/// open_tree_attr(2), of the table that all architectures share.
const SYS_OPEN_TREE_ATTR: c_long = 467;
const OPEN_TREE_CLONE: c_int = 1;
const OPEN_TREE_CLOEXEC: c_int = libc::O_CLOEXEC;

/// mount_setattr(2) on the mount that a descriptor stands for.
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, attributes: &Attributes<'_>) -> Result<(), Errno> {
    let attr = mount_attr(attributes, 0)?;
    // SAFETY: both descriptors are borrowed for the whole call; the empty path ends in NUL; `attr`
    // is valid for reading the size that is given, and the kernel writes through none of them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive(attributes.submounts),
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// A clone of the mount at `path` below `from` (of `from` itself, if empty) that has the attributes at
/// once. Unlike the call above it can give an idmapped mount another map.
pub(super) fn open_tree_attr(
    from: BorrowedFd<'_>,
    path: &CString,
    attributes: &Attributes<'_>,
) -> Result<OwnedFd, Errno> {
    let replaced = if attributes.idmap.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let attr = mount_attr(attributes, replaced)?;
    let empty = if path.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: the descriptors are borrowed for the whole call; the path ends in NUL; `attr` is valid
    // for reading the size that is given, and the kernel writes through none of them.
    let result = unsafe {
        libc::syscall(
            SYS_OPEN_TREE_ATTR,
            from.as_raw_fd(),
            path.as_ptr(),
            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | empty | recursive(attributes.submounts),
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    let fd = c_int::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(last_errno)?;
    // SAFETY: the kernel has just returned this descriptor, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn mount_attr(attributes: &Attributes<'_>, cleared: u64) -> Result<libc::mount_attr, Errno> {
    let read_only = match attributes.access {
        Access::ReadWrite => 0,
        Access::ReadOnly => libc::MOUNT_ATTR_RDONLY,
    };
    let (idmap, userns_fd) = match attributes.idmap {
        Some(userns) => {
            let fd = u64::try_from(userns.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?;
            (libc::MOUNT_ATTR_IDMAP, fd)
        }
        None => (0, 0),
    };
    Ok(libc::mount_attr {
        attr_set: idmap | read_only | attributes.flags.bits(),
        attr_clr: cleared,
        propagation: attributes.propagation.map_or(0, super::Propagation::bits),
        userns_fd,
    })
}

fn recursive(submounts: Submounts) -> c_int {
    match submounts {
        Submounts::Without => 0,
        Submounts::Included => libc::AT_RECURSIVE,
    }
}
