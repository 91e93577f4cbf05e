//! Which descriptors of a process enter a container.

use std::os::fd::{OwnedFd, RawFd};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor};
use rustix::io::Errno;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stderr, stdin, stdout};

use crate::userns::last_errno;

/// Replaces each standard stream that is the host's /dev/null by the container's own: otherwise the container's root
/// could change the host's node (`chmod 0 /proc/self/fd/0`). The calling process sees the container's files.
pub(super) fn own_nothing() -> Result<(), Errno> {
    let is_hosts =
        [stdin(), stdout(), stderr()].map(|stream| fstat(stream).is_ok_and(|stat| is_nothing(&stat)));
    let [input, output, errors] = is_hosts;
    if !(input || output || errors) {
        return Ok(());
    }
    let nothing = open_nothing()?;
    if input {
        dup2_stdin(&nothing)?;
    }
    if output {
        dup2_stdout(&nothing)?;
    }
    if errors {
        dup2_stderr(&nothing)?;
    }
    Ok(())
}

fn is_nothing(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3)
}

/// The container controls what is at that path: it is opened only if it is the null device.
fn open_nothing() -> Result<OwnedFd, Errno> {
    let path = "/dev/null";
    let held = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&held)?;
    if !is_nothing(&found) {
        return Err(Errno::NODEV);
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = fstat(&opened)?;
    if (stat.st_dev, stat.st_ino) != (found.st_dev, found.st_ino) {
        return Err(Errno::NODEV);
    }
    rustix::fs::fcntl_setfl(&opened, OFlags::RDWR)?;
    Ok(opened)
}

/// Closes all descriptors except the standard streams and this one.
pub(super) fn close_but(kept: RawFd) -> Result<(), Errno> {
    let kept = libc::c_uint::try_from(kept).map_err(|_| Errno::BADF)?;
    if kept > 3 {
        close_range(3, kept - 1)?;
    }
    close_range(kept.saturating_add(1).max(3), libc::c_uint::MAX)
}

fn close_range(first: libc::c_uint, last: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: this process uses none of these descriptors any more: it becomes the program or ends, and
    // whatever owns them is never dropped.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}
