use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the program that `command` starts end with the thread that starts it, however that ends.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    let us = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Whoever died before the tie was made is not our parent any more.
        if getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(tie) }
}
