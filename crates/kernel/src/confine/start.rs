use std::ffi::{c_int, c_long};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::Confined;
use super::between::{Between, at};
use super::inside::Inside;
use super::report::{self, Step, Told};
use crate::namespace::{NamespaceKind, Process};
use crate::userns::last_errno;
use crate::{Error, Result};

const HEARING: &str = "hear from the process that was to run";

/// A process started in a container. It is a child of the caller.
#[derive(Debug)]
pub struct Started {
    /// The process.
    pub process: Process,
    /// The master side of its terminal.
    pub master: Option<OwnedFd>,
}

impl Confined {
    /// Starts the process and returns when it runs its program. It is killed if the caller ends, unless it has become
    /// another user by a set-user-ID program since.
    ///
    /// The caller must have no other thread: the process starts as a fork of it, and runs ordinary code. It is the
    /// caller's child and not that of the intermediate process that joins the namespaces, since only children enter
    /// another PID namespace.
    pub fn start(&self) -> Result<Started> {
        alone()?;
        let failed = |errno| Error::Confine { step: Step::Fork.words(), errno };
        let (ours, theirs) = report::ends().map_err(failed)?;
        let theirs_now = self.beside.namespaces()?;
        let kinds: Vec<NamespaceKind> = theirs_now.differing(&Process::own()?.namespaces()?).collect();
        let mask = kinds.iter().fold(0, |mask, kind| mask | kind.flag());
        // SAFETY: this process has one thread, so that the child may run any code.
        match unsafe { libc::fork() } {
            ..0 => Err(failed(last_errno())),
            0 => {
                drop(ours);
                go_between(Between { wanted: self, report: theirs, mask })
            }
            pid => {
                drop(theirs);
                let outcome = self.attend(&ours, pid);
                // A process that still waits for our message gets end-of-file, and ends.
                drop(ours);
                reap(pid);
                outcome
            }
        }
    }

    fn attend(&self, from: &OwnedFd, between: i32) -> Result<Started> {
        let lost = || Error::Confine { step: HEARING, errno: Errno::CHILD };
        let between = Process::open(between.unsigned_abs())?;
        let (mut pid, mut master, mut ready) = (None, None, false);
        while pid.is_none() || !ready {
            // Only the intermediate process knows the PID of the other.
            if pid.is_none() && !says_something(from, &between)? {
                return Err(lost());
            }
            match self.hear(from)? {
                Told::Pid(number) => pid = Some(number),
                Told::Master(fd) => master = Some(fd),
                Told::Ready => ready = true,
                Told::Failed(step, errno) => return Err(self.failure(step, errno, pid)),
                Told::Nothing => {
                    pid.into_iter().for_each(reap);
                    return Err(lost());
                }
            }
        }
        let number = pid.and_then(|number| u32::try_from(number).ok()).ok_or_else(lost)?;
        let process = Process::open(number)?;
        if let Err(error) = self.let_go(from) {
            let _ = process.signal(rustix::process::Signal::KILL);
            reap(process.pid());
            return Err(error);
        }
        Ok(Started { process, master })
    }

    /// The parent has a pidfd of it now, so that it may continue.
    fn let_go(&self, to: &OwnedFd) -> Result<()> {
        let lost = |errno| Error::Confine { step: Step::Program.words(), errno };
        report::tell_go(to.as_fd()).map_err(lost)?;
        match self.hear(to)? {
            Told::Nothing => Ok(()),
            Told::Failed(step, errno) => Err(self.failure(step, errno, None)),
            Told::Pid(_) | Told::Master(_) | Told::Ready => Err(lost(Errno::BADMSG)),
        }
    }

    fn hear(&self, from: &OwnedFd) -> Result<Told> {
        report::listen(from).map_err(|errno| Error::Confine { step: HEARING, errno })
    }

    fn failure(&self, step: Step, errno: Errno, pid: Option<i32>) -> Error {
        if let Some(pid) = pid {
            reap(pid);
        }
        match step {
            Step::Program => Error::Program { name: self.program.name(), errno },
            step => Error::Confine { step: step.words(), errno },
        }
    }
}

fn alone() -> Result<()> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads == 1 { Ok(()) } else { Err(Error::NotAlone { threads }) }
}

/// Waits for a message; `false` if the intermediate process has ended without one.
fn says_something(from: &OwnedFd, between: &Process) -> Result<bool> {
    let mut fds = [PollFd::new(from, PollFlags::IN), PollFd::new(between, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Confine { step: HEARING, errno }),
            Ok(_) => break,
        }
    }
    let [said, _] = &fds;
    if !said.revents().is_empty() {
        return Ok(true);
    }
    // Poll checks one descriptor after the other: a message sent between the two checks was sent before the end.
    has_said(from)
}

fn has_said(from: &OwnedFd) -> Result<bool> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(from, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&now)) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Confine { step: HEARING, errno }),
            Ok(ready) => return Ok(ready > 0),
        }
    }
}

/// The intermediate process: enters the namespaces, forks the process of the program and ends.
fn go_between(between: Between<'_>) -> ! {
    let child = between.prepare().and_then(|()| child_of_our_parent().map_err(at(Step::Fork)));
    match child {
        Ok(0) => Inside(between).become_it(),
        Ok(pid) => {
            report::tell_pid(between.report.as_fd(), pid);
            exit(0)
        }
        Err((step, errno)) => report::tell_failed(between.report.as_fd(), step, errno),
    }
    exit(1)
}

/// A fork whose parent is our parent, which waits for it.
fn child_of_our_parent() -> std::result::Result<i32, Errno> {
    let flags = c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: as a fork: memory is copied and no stack is given. This process has one thread.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long) };
    i32::try_from(pid).ok().filter(|pid| *pid >= 0).ok_or_else(last_errno)
}

fn exit(code: c_int) -> ! {
    // SAFETY: ends this process without running anything that the forking process has registered.
    unsafe { libc::_exit(code) }
}

fn reap(pid: i32) {
    while let Err(Errno::INTR) = waitpid(Pid::from_raw(pid), WaitOptions::empty()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that it has started may hold the other end for ever, waiting for our message.
    #[test]
    fn the_end_of_the_process_in_between_is_heard_though_another_holds_its_end() {
        let (ours, theirs) = report::ends().unwrap();
        let mut child = std::process::Command::new("sleep").arg("0.05").spawn().unwrap();
        let between = Process::open(child.id()).unwrap();
        assert!(!says_something(&ours, &between).unwrap());
        report::tell_pid(theirs.as_fd(), 7);
        assert!(says_something(&ours, &between).unwrap(), "what was said before counts");
        child.wait().unwrap();
    }

    /// A poll looks at the socket, then at the process: one that spoke and ended in between was taken for one that
    /// had said nothing, and one command of some thousands failed. Rounds, because the moment cannot be chosen.
    #[test]
    fn whoever_speaks_and_ends_at_once_is_heard() {
        for round in 0..300 {
            let (ours, theirs) = report::ends().unwrap();
            let mut child = std::process::Command::new("printf").arg("p").stdout(theirs).spawn().unwrap();
            let between = Process::open(child.id()).unwrap();
            assert!(says_something(&ours, &between).unwrap(), "round {round}");
            child.wait().unwrap();
        }
    }
}
