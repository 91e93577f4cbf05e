use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, chdir, getpid, pidfd_open, setsid, waitpid};
use rustix::thread::sched_yield;

use crate::{Error, Result};

/// One that has been waited for is still counted until it has had its turn once more, which on a busy machine may be
/// long.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the processor is only offered to others, and how long it is left in between after that.
const EAGER: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(1);

/// Has something done as soon as this process has ended, however it ends and whatever program it is by then: by a copy
/// of it that is left behind, which has none of its descriptors, its directory or its terminal. Nor is it a child of this
/// process: the program that it becomes may wait for all that it has.
///
/// Refused where there is more than one thread: a copy would have only one of them, and the locks of all.
pub fn afterwards(what: impl FnOnce()) -> Result<()> {
    let failed = |errno| Error::LeaveBehind { errno };
    alone(PATIENCE).map_err(failed)?;
    // Ours from here on, whoever has our number later.
    let us = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed)?;
    let Some(between) = copy().map_err(failed)? else {
        // Whoever looks after children that have lost their parent has the second copy, when the first has ended.
        match copy() {
            Ok(None) => {
                stay_behind(&us);
                what();
                end(0)
            }
            Ok(Some(_)) => end(0),
            Err(errno) => end(errno.raw_os_error()),
        }
    };
    loop {
        match waitpid(Some(between), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
            Ok(ended) => {
                let code = ended.and_then(|(_, status)| status.exit_status());
                return match code {
                    Some(0) => Ok(()),
                    code => Err(failed(code.map_or(Errno::AGAIN, Errno::from_raw_os_error))),
                };
            }
        }
    }
}

/// Waits until this is the only thread.
fn alone(patience: Duration) -> rustix::io::Result<()> {
    let began = Instant::now();
    while threads() != 1 {
        match began.elapsed() {
            waited if waited > patience => return Err(Errno::BUSY),
            waited if waited > EAGER => std::thread::sleep(PAUSE),
            _ => sched_yield(),
        }
    }
    Ok(())
}

/// The number of a copy of this process; nothing in the copy.
fn copy() -> rustix::io::Result<Option<Pid>> {
    // SAFETY: this is the only thread, so that no lock is held by another one and all memory is as it seems.
    match unsafe { libc::fork() } {
        ..0 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)),
        pid => Ok(Pid::from_raw(pid)),
    }
}

fn end(code: i32) -> ! {
    // SAFETY: ends a copy; nothing that was to be done at the end of this process is done twice.
    unsafe { libc::_exit(code) }
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
        assert_eq!(alone(Duration::from_millis(20)), Err(Errno::BUSY));
    }
}
