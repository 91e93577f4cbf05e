//! A root without anything in it, for a process that is to reach nothing.
//!
//! What must stay true: only system calls are made here, on memory that was there before, since this runs in
//! a copy of a process of several threads.

use std::ffi::{CStr, c_int, c_long};
use std::ptr;

use rustix::io::Errno;

use crate::userns::last_errno;

/// From the kernel's `mount.h`.
const FSCONFIG_SET_FLAG: c_long = 0;
const FSCONFIG_CMD_CREATE: c_long = 6;
const MOVE_MOUNT_F_EMPTY_PATH: c_long = 4;
/// Read-only, no set-user-ID, no devices, no programs.
const ATTRIBUTES: c_long = 0x1 | 0x2 | 0x4 | 0x8;

/// Leaves the calling process in its mount namespace, which is its own, with one mount: an empty one that cannot be
/// written to. The old root is detached and not only covered: `..` leads nowhere, and a process that enters the
/// namespace finds nothing else either.
pub(super) fn enter() -> Result<(), Errno> {
    private()?;
    let root = empty()?;
    // SAFETY: a descriptor of ours, and paths that end in NUL.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            root,
            c"".as_ptr(),
            libc::AT_FDCWD,
            c"/".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })?;
    // SAFETY: a descriptor of ours.
    check(unsafe { libc::syscall(libc::SYS_fchdir, root) })?;
    // SAFETY: paths that end in NUL. The old root comes to lie on the new one, where the next call finds it.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) })?;
    // SAFETY: a path that ends in NUL.
    check(unsafe { libc::syscall(libc::SYS_umount2, c".".as_ptr(), libc::MNT_DETACH) })?;
    // SAFETY: a path that ends in NUL.
    check(unsafe { libc::syscall(libc::SYS_chdir, c"/".as_ptr()) })
}

/// Nothing that is done here reaches the host.
fn private() -> Result<(), Errno> {
    let none = ptr::null::<u8>();
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: a path that ends in NUL; the others are not read for a change of propagation.
    check(unsafe { libc::syscall(libc::SYS_mount, none, c"/".as_ptr(), none, flags, none) })
}

/// A new filesystem, as a mount that is nowhere yet. Its descriptors are closed with all others.
fn empty() -> Result<c_int, Errno> {
    // SAFETY: a name that ends in NUL.
    let filesystem = number(unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 1 as c_long) })?;
    configure(filesystem, FSCONFIG_SET_FLAG, Some(c"ro"))?;
    configure(filesystem, FSCONFIG_CMD_CREATE, None)?;
    // SAFETY: a descriptor of ours and plain numbers.
    number(unsafe { libc::syscall(libc::SYS_fsmount, filesystem, 1 as c_long, ATTRIBUTES) })
}

fn configure(filesystem: c_int, command: c_long, key: Option<&'static CStr>) -> Result<(), Errno> {
    let (key, none) = (key.map_or(ptr::null(), CStr::as_ptr), ptr::null::<u8>());
    // SAFETY: a descriptor of ours, a key that is none or ends in NUL, and no value.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, filesystem, command, key, none, 0 as c_long) })
}

fn number(result: c_long) -> Result<c_int, Errno> {
    c_int::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(last_errno)
}

fn check(result: c_long) -> Result<(), Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}
