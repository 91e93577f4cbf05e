use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Sets the parent-death signal (`PR_SET_PDEATHSIG`) of the program that `command` starts: the kernel kills it when the
/// thread that spawned it exits. Spawning fails with ESRCH if this process exits meanwhile.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let us = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the parent-death signal was set, this process has another parent.
        if getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(tie) }
}
