use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Uid, fchown, fcntl_setfl, fstat, fstatfs, major, minor};
use rustix::io::Errno;
use rustix::process::ioctl_tiocsctty;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};
use rustix::termios::{Winsize, tcsetwinsize};

use super::report;

/// The magic number of devpts.
const DEVPTS: i64 = 0x1cd1;

/// Makes a new terminal of the container the standard streams of the calling process; the master side is sent to
/// `report`.
pub(super) fn open(report: BorrowedFd<'_>, user: u32, size: Option<(u16, u16)>) -> Result<(), Errno> {
    let master = open_master()?;
    unlockpt(&master)?;
    // By an ioctl on the terminal itself: a path could lead anywhere.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = ioctl_tiocgptpeer(&master, flags)?;
    fchown(&terminal, Some(Uid::from_raw(user)), None)?;
    if let Some((rows, columns)) = size {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size)?;
    }
    dup2_stdin(&terminal)?;
    dup2_stdout(&terminal)?;
    dup2_stderr(&terminal)?;
    report::tell_master(report, rustix::fd::AsFd::as_fd(&master))
}

/// Makes the terminal of its standard streams the controlling terminal of the calling process, which leads its
/// session.
pub(super) fn control() -> Result<(), Errno> {
    ioctl_tiocsctty(stdin())
}

/// The container controls what is at that path: it counts only if it is a terminal multiplexer.
fn open_master() -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let held =
        rustix::fs::open("/dev/pts/ptmx", OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&held)?;
    let is_master = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
        && (major(found.st_rdev), minor(found.st_rdev)) == (5, 2)
        && fstatfs(&held)?.f_type == DEVPTS;
    if !is_master {
        return Err(Errno::NODEV);
    }
    let master = rustix::fs::open("/dev/pts/ptmx", flags, Mode::empty())?;
    let opened = fstat(&master)?;
    if (opened.st_dev, opened.st_ino) != (found.st_dev, found.st_ino) {
        return Err(Errno::NODEV);
    }
    fcntl_setfl(&master, OFlags::RDWR)?;
    Ok(master)
}
