//! SIGINT, SIGTERM and SIGHUP as a flag that the program checks between its steps.

use std::ffi::c_int;
use std::mem;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::userns::last_errno;
use crate::{Error, Result};

/// How late a signal is noticed that arrives just before a wait begins.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

static ASKED: AtomicBool = AtomicBool::new(false);

/// Installs handlers: from now on SIGINT, SIGTERM and SIGHUP set the flag instead of ending this process. A blocking
/// call of the interrupted thread fails with EINTR. Programs started by this one are not affected.
pub fn catch() -> Result<()> {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().try_for_each(catch_signal)
}

/// Whether one of them has arrived.
#[must_use]
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// There is data to read, or end-of-file.
    Readable,
    /// One of the signals has arrived.
    Interrupted,
}

/// Waits until `source` is readable or one of the signals arrives.
pub fn wait_readable(source: impl AsFd) -> Result<Waited> {
    loop {
        if asked() {
            return Ok(Waited::Interrupted);
        }
        match poll(&mut [PollFd::new(&source, PollFlags::IN)], Some(&GLANCE)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(Waited::Readable),
            Err(errno) => return Err(Error::Wait { errno }),
        }
    }
}

fn catch_signal(signal: c_int) -> Result<()> {
    // SAFETY: all zero is a valid action: no flags (so no SA_RESTART), an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    let handler: extern "C" fn(c_int) = note;
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: `action` is complete; its handler does nothing but store to an atomic; the old action
    // is not asked for.
    let result = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(Error::CatchSignal { signal, errno: last_errno() }) }
}

extern "C" fn note(_signal: c_int) {
    ASKED.store(true, Ordering::Relaxed);
}
