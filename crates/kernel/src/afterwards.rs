use std::ffi::{c_int, c_void};
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
const EAGER: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(1);

/// What the copy has for a stack: as much as a program has, of which only what is used is there.
const STACK_UNITS: usize = 8 * 1024 * 1024 / size_of::<u128>();

/// Has something done as soon as this process has ended, however it ends and whatever program it is by then: by a copy
/// of it that is left behind, which has none of its descriptors, its directory or its terminal. Nor is it a child of this
/// process: the program that it becomes may wait for all that it has.
///
/// Refused where there is more than one thread: a copy would have only one of them, and the locks of all.
pub fn afterwards<F: FnOnce()>(what: F) -> Result<()> {
    let failed = |errno| Error::LeaveBehind { errno };
    alone(PATIENCE).map_err(failed)?;
    // Ours from here on, whoever has our number later.
    let us = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed)?;
    let mut order = Order { us, what: Some(what), outcome: 0 };
    let mut stack = vec![0u128; STACK_UNITS].into_boxed_slice();
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    // One between us and the copy, who ends at once: the copy is then a child of whoever looks after those that have lost
    // their parent. It is on our own memory, so that this is copied only once.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: this is the only thread, and stands still until the one between has ended (CLONE_VFORK), so that nobody else
    // uses `order` or `stack`, which both outlive it. The stack is aligned and grows down from `top`.
    let between = unsafe { libc::clone(between::<F>, top, flags, (&raw mut order).cast()) };
    let Some(between) = Pid::from_raw(between).filter(|_| between > 0) else {
        return Err(failed(last_errno()));
    };
    // It has ended. Where ends of children are ignored, as a caller may have it, there is nothing left of it.
    while matches!(waitpid(Some(between), WaitOptions::empty()), Err(Errno::INTR)) {}
    if order.outcome == 0 { Ok(()) } else { Err(failed(Errno::from_raw_os_error(order.outcome))) }
}

/// What the one between is told, and where it tells what came of it.
struct Order<F> {
    us: OwnedFd,
    what: Option<F>,
    outcome: c_int,
}

extern "C" fn between<F: FnOnce()>(order: *mut c_void) -> c_int {
    // SAFETY: it is the order of the one who stands still for us.
    let order = unsafe { &mut *order.cast::<Order<F>>() };
    // SAFETY: there is one thread, so that no lock is held by another one and all memory is as it seems.
    match unsafe { libc::fork() } {
        0 => {
            stay_behind(&order.us);
            if let Some(what) = order.what.take() {
                what();
            }
        }
        ..0 => order.outcome = last_errno().raw_os_error(),
        _ => {}
    }
    // SAFETY: ends this process; nothing that was to be done at the end of the one it came from is done twice.
    unsafe { libc::_exit(0) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)
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
