use std::ffi::{c_int, c_long};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::Confined;
use super::inside::Inside;
use super::report::{self, Step, Told};
use crate::namespace::{NamespaceKind, Process};
use crate::userns::last_errno;
use crate::{Error, Result};

/// A process started in a container. It is a child of the caller.
#[derive(Debug)]
pub struct Started {
    /// The process.
    pub process: Process,
    /// The other side of its terminal.
    pub master: Option<OwnedFd>,
}

impl Confined {
    /// Starts the process and returns when it runs its program. It dies if the caller does, unless it has
    /// become another user by a set-user-ID program since.
    ///
    /// The caller must have no other thread: the process begins as a copy of it, and goes on as an
    /// ordinary program would. It is the caller's child and not that of the process in between that joins
    /// the namespaces, since only children are born into another PID namespace.
    pub fn start(&self) -> Result<Started> {
        alone()?;
        let failed = |errno| Error::Confine { step: Step::Fork.words(), errno };
        let (ours, theirs) = report::ends().map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let host_proc = rustix::fs::open("/proc", flags, Mode::empty())
            .map_err(|errno| Error::Open { path: "/proc".into(), errno })?;
        let theirs_now = self.beside.namespaces()?;
        let kinds: Vec<NamespaceKind> = theirs_now.differing(&Process::own()?.namespaces()?).collect();
        let mask = kinds.iter().fold(0, |mask, kind| mask | kind.flag());
        let other_users = kinds.contains(&NamespaceKind::User);
        // SAFETY: this process has one thread, so that its copy is whole.
        match unsafe { libc::fork() } {
            ..0 => Err(failed(last_errno())),
            0 => {
                drop(ours);
                let inside = Inside { wanted: self, report: theirs, host_proc, other_users };
                between(inside, mask)
            }
            pid => {
                drop((theirs, host_proc));
                let outcome = self.attend(&ours);
                // Whoever still waits for our word gets none, and ends.
                drop(ours);
                reap(pid);
                outcome
            }
        }
    }

    fn attend(&self, from: &OwnedFd) -> Result<Started> {
        let lost = || Error::Confine { step: "hear from the process that was to run", errno: Errno::CHILD };
        let (mut pid, mut master, mut ready) = (None, None, false);
        while pid.is_none() || !ready {
            match self.hear(from)? {
                Told::Pid(number) => pid = Some(number),
                Told::Master(fd) => master = Some(fd),
                Told::Ready => ready = true,
                Told::Failed(step, errno) => return Err(self.failure(step, errno, pid)),
                Told::Nothing => return Err(lost()),
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

    /// It is known by descriptor now, so that it may go on.
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
        let step = "hear from the process that was to run";
        report::listen(from).map_err(|errno| Error::Confine { step, errno })
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

/// The process in between: goes where only its child can be, has it and ends.
fn between(inside: Inside<'_>, mask: c_int) -> ! {
    let told = |(step, errno)| report::tell_failed(inside.report.as_fd(), step, errno);
    let child = go_there(&inside, mask).and_then(|()| child_of_our_parent().map_err(|e| (Step::Fork, e)));
    match child {
        Ok(0) => inside.become_it(),
        Ok(pid) => {
            report::tell_pid(inside.report.as_fd(), pid);
            exit(0)
        }
        Err(failed) => told(failed),
    }
    exit(1)
}

fn go_there(inside: &Inside<'_>, mask: c_int) -> std::result::Result<(), (Step, Errno)> {
    let wanted = inside.wanted;
    // Until the program runs this is our memory, and its program ours: none of the container's processes
    // may look into it, whatever they may do to others. Running the program ends that.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|errno| (Step::Hide, errno))?;
    for group in &wanted.cgroups {
        rustix::io::write(group, b"0").map_err(|errno| (Step::Cgroup, errno))?;
    }
    if let Some(score) = wanted.limits.oom_score_adj {
        set_oom_score(inside, score).map_err(|errno| (Step::OomScore, errno))?;
    }
    for limit in &wanted.limits.resources {
        limit.make_room().map_err(|errno| (Step::Limit, errno))?;
    }
    if mask == 0 {
        return Ok(());
    }
    // SAFETY: the descriptor is borrowed for the whole call; the rest are plain numbers.
    let joined = unsafe { libc::setns(wanted.beside.as_fd().as_raw_fd(), mask) };
    if joined == 0 { Ok(()) } else { Err((Step::Join, last_errno())) }
}

fn set_oom_score(inside: &Inside<'_>, score: i32) -> std::result::Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&inside.host_proc, "self/oom_score_adj", flags, Mode::empty())?;
    rustix::io::write(&file, score.to_string().as_bytes()).map(drop)
}

/// A copy of this process that is not our child but our parent's, who waits for it.
fn child_of_our_parent() -> std::result::Result<i32, Errno> {
    let flags = c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: as a fork: memory is copied and no stack is given. This process has one thread.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long) };
    i32::try_from(pid).ok().filter(|pid| *pid >= 0).ok_or_else(last_errno)
}

fn exit(code: c_int) -> ! {
    // SAFETY: ends this process without running anything of the one that it is a copy of.
    unsafe { libc::_exit(code) }
}

fn reap(pid: i32) {
    while let Err(Errno::INTR) = waitpid(Pid::from_raw(pid), WaitOptions::empty()) {}
}
