use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::{io, mem, ptr};

use rustix::io::Errno;
use rustix::process::setsid;

use crate::{Error, Result};

/// Starts `command` as a process that outlives this one and has nothing of it: no descriptor (its standard descriptors are
/// `/dev/null`), neither its working directory nor its session, and all signals blocked, so that only SIGKILL ends it early.
///
/// It is not a child of this process: the program that this process becomes may wait for all its children. It has started
/// when this returns.
///
/// # Errors
/// If the process cannot be made, or its program cannot be run.
pub fn spawn_detached(command: &mut Command) -> Result<()> {
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: `detach` runs in the forked child, which has one thread. It makes system calls only: it neither allocates nor
    // takes a lock, and owns all that it passes by pointer.
    unsafe { command.pre_exec(detach) };
    let mut intermediate = command.spawn().map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::INVAL);
        Error::SpawnDetached { errno }
    })?;
    // It ended before the program was run. Where SIGCHLD is ignored, as a caller may have it, nothing is left of it.
    let _ = intermediate.wait();
    Ok(())
}

/// Between fork and exec: starts a new session, and continues as the child of a process that ends at once.
fn detach() -> io::Result<()> {
    // Close-on-exec and not close: `Command` reports a failure of exec through one of them.
    let (first, last): (libc::c_uint, libc::c_uint) = (3, libc::c_uint::MAX);
    // SAFETY: no memory is passed.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    setsid()?;
    // SAFETY: this process has one thread, and its child goes on with the same calls.
    match unsafe { libc::fork() } {
        0 => block_signals(),
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: ends this process without running what its parent has registered for its own end.
        _ => unsafe { libc::_exit(0) },
    }
}

fn block_signals() -> io::Result<()> {
    // SAFETY: all zero is a valid, empty set.
    let mut all: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the set is ours, and is written to by this call only.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the set is whole and is only read; the old one is not asked for.
    let blocked = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut()) };
    if blocked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
