use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, chdir, getpid, pidfd_open, setsid};
use rustix::thread::sched_yield;

use crate::{Error, Result};

/// One that has been waited for is still counted for a moment.
const PATIENCE: Duration = Duration::from_millis(100);

/// Has something done as soon as this process has ended, however it ends and whatever program it is by then: by a copy
/// of it that is left behind, which has none of its descriptors, its directory or its terminal.
///
/// Refused where there is more than one thread: a copy would have only one of them, and the locks of all.
pub fn afterwards(what: impl FnOnce()) -> Result<()> {
    let failed = |errno| Error::LeaveBehind { errno };
    let deadline = Instant::now() + PATIENCE;
    while threads() != 1 {
        if Instant::now() > deadline {
            return Err(failed(Errno::BUSY));
        }
        sched_yield();
    }
    // Ours from here on, whoever has our number later.
    let us = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed)?;
    // SAFETY: this is the only thread, so that no lock is held by another one and all memory is as it seems.
    match unsafe { libc::fork() } {
        ..0 => Err(failed(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN))),
        0 => {
            stay_behind(&us);
            what();
            // SAFETY: ends the copy; nothing that was to be done at the end of this process is done twice.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}

/// How many threads the kernel knows of; 0 if it does not tell.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Lets go of all that this process has, and waits for its end.
fn stay_behind(us: &OwnedFd) {
    let (low, high) = (us.as_raw_fd().cast_unsigned(), libc::c_uint::MAX);
    // SAFETY: of all descriptors the copy uses only the one between.
    unsafe { libc::syscall(libc::SYS_close_range, 0, low.saturating_sub(1), 0) };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, low.saturating_add(1), high, 0) };
    // What is opened later is not to be taken for what a program reads from and writes to.
    while let Ok(null) = open("/dev/null", OFlags::RDWR, Mode::empty()) {
        let is_last = null.as_raw_fd() >= 2;
        std::mem::forget(null);
        if is_last {
            break;
        }
    }
    let _ = (chdir("/"), setsid());
    let mut ended = [PollFd::new(us, PollFlags::IN)];
    while matches!(poll(&mut ended, None), Err(Errno::INTR)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_refused_beside_other_threads() {
        // The harness has one for each test.
        assert!(matches!(afterwards(|| ()), Err(Error::LeaveBehind { errno: Errno::BUSY })));
    }
}
