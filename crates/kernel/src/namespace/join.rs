use std::ffi::{OsStr, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;

use super::{NamespaceKind, Process};
use crate::path::Owner;
use crate::{Error, Result};

/// A program to be started in the namespaces of a process, in all of them at once: one by one, user
/// namespace first, the kernel would refuse a network namespace that is not the pod's own.
#[derive(Debug)]
pub struct Join {
    pidfd: OwnedFd,
    kinds: Vec<NamespaceKind>,
    user: Owner,
}

impl Join {
    /// Into every namespace of `process` that is not the caller's own already.
    pub fn all(process: &Process) -> Result<Self> {
        let (ours, theirs) = (Process::own()?.namespaces()?, process.namespaces()?);
        Self::only(process, theirs.differing(&ours).collect())
    }

    /// Into these namespaces of `process`. The caller's own user namespace cannot be among them.
    pub fn only(process: &Process, kinds: Vec<NamespaceKind>) -> Result<Self> {
        let failed = |errno| Error::Process { step: "keep", pid: process.pid(), errno };
        let pidfd = rustix::io::fcntl_dupfd_cloexec(process.as_fd(), 3).map_err(failed)?;
        Ok(Self { pidfd, kinds, user: Owner::ROOT })
    }

    /// As this user and group, in the numbers of the user namespace that is joined; root by default.
    #[must_use]
    pub fn user(self, user: Owner) -> Self {
        Self { user, ..self }
    }

    /// The kinds that will be joined.
    #[must_use]
    pub fn kinds(&self) -> &[NamespaceKind] {
        &self.kinds
    }

    /// The command that starts `program`, which is looked for by its path inside. It is an ordinary
    /// command: arguments, environment and standard streams are given to it, and `spawn` fails with the
    /// kernel's answer if the namespaces cannot be joined.
    ///
    /// What must stay true:
    /// - Between fork and exec only system calls are made, on memory that was there before: nothing is
    ///   allocated, no lock is taken. (Another thread may hold any lock at the time of the fork.)
    /// - Only the forked process joins: a process with threads cannot enter a user namespace.
    /// - With a PID namespace among them the program is the child of an intermediate process, since only
    ///   children are born into one. That process has none of the program's descriptors, ends as the
    ///   program ends and, if it is killed itself, takes the program along (unless that has become
    ///   another user since: then the kernel no longer sends it the signal).
    #[must_use]
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let entry = Entry {
            mask: self.kinds.iter().fold(0, |mask, kind| mask | kind.flag()),
            user: self.kinds.contains(&NamespaceKind::User).then_some(self.user),
            forks: self.kinds.contains(&NamespaceKind::Pid),
            pidfd: self.pidfd,
        };
        // SAFETY: `enter` is made of system calls alone and touches only what it owns; see above.
        unsafe { command.pre_exec(move || entry.enter()) };
        command
    }
}

/// What the forked process needs to know.
struct Entry {
    pidfd: OwnedFd,
    mask: c_int,
    user: Option<Owner>,
    forks: bool,
}

impl Entry {
    fn enter(&self) -> io::Result<()> {
        // Until the program runs, this is our memory with our descriptors among the pod's processes: none of
        // them may look into it. Running the program ends that.
        // SAFETY: plain numbers.
        check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) })?;
        if self.mask != 0 {
            // SAFETY: the descriptor is owned by `self`; the call takes plain numbers.
            check(unsafe { libc::setns(self.pidfd.as_raw_fd(), self.mask) })?;
        }
        let parent = if self.forks { Some(go_between()?) } else { None };
        self.user.map_or(Ok(()), become_user)?;
        // After the change of user: it clears the parent-death signal.
        parent.as_ref().map_or(Ok(()), die_with_parent)
    }
}

/// Root of the user namespace just joined may become any user of it; until then the process has the overflow ID.
fn become_user(user: Owner) -> io::Result<()> {
    // The bare calls: libc's own would have all threads follow, by ways that are not safe after fork.
    // SAFETY: no groups are read for a length of 0.
    check_long(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) })?;
    // SAFETY: plain numbers.
    check_long(unsafe { libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid) })?;
    // SAFETY: plain numbers.
    check_long(unsafe { libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid) })
}

/// Forks; returns in the child, with something that can be read from once the parent is gone. The parent
/// stays as the one that is waited for.
fn go_between() -> io::Result<OwnedFd> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the kernel writes two descriptors to `ends`.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let [reading, writing] = ends;
    // SAFETY: this process has one thread, and both sides go on with system calls only.
    let pid = unsafe { libc::fork() };
    match pid {
        ..0 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: no other value of this process owns this descriptor.
            drop(unsafe { OwnedFd::from_raw_fd(writing) });
            // SAFETY: as above.
            Ok(unsafe { OwnedFd::from_raw_fd(reading) })
        }
        child => wait_in_between(child, writing),
    }
}

/// The parent has the writing end alone: if it is gone by the time the signal is ordered, reading ends.
fn die_with_parent(parent: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    let mut poll = libc::pollfd { fd: parent.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor is looked at and written to, without waiting.
    match unsafe { libc::poll(&raw mut poll, 1, 0) } {
        0 => Ok(()),
        _ => Err(Errno::SRCH.into()),
    }
}

/// Waits for the child and ends as it did.
fn wait_in_between(child: libc::pid_t, writing: RawFd) -> ! {
    // A process that reads from the program, or waits for its start, must not wait for this process.
    close_all_but(writing);
    // The status if none can be found out: not success.
    let mut status: c_int = 125 << 8;
    loop {
        // SAFETY: the kernel writes one number to `status`.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child || last() != libc::EINTR {
            break;
        }
    }
    if libc::WIFSIGNALED(status) {
        die_by(libc::WTERMSIG(status));
    }
    // SAFETY: ends this process without running anything of ours.
    unsafe { libc::_exit(libc::WEXITSTATUS(status)) }
}

fn close_all_but(kept: RawFd) {
    let kept = libc::c_uint::try_from(kept).unwrap_or(0);
    // SAFETY: this process goes on to use no descriptor but the one that is left out.
    unsafe { libc::syscall(libc::SYS_close_range, 0, kept.saturating_sub(1), 0) };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, kept.saturating_add(1), libc::c_uint::MAX, 0) };
}

/// Ends this process by the same signal, so that its parent sees the signal that ended the program.
fn die_by(signal: c_int) {
    // SAFETY: plain numbers; the default action needs no handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: all zero is an empty set of signals, so nothing stays blocked.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is complete; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    // SAFETY: takes nothing.
    let own = unsafe { libc::getpid() };
    // SAFETY: plain numbers, to this process alone.
    unsafe { libc::kill(own, signal) };
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn last() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
