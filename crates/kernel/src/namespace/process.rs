use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Namespace, NamespaceId, NamespaceKind};
use crate::{Error, Result};

/// A process held by pidfd: a later process with the same PID is never meant.
#[derive(Debug)]
pub struct Process {
    pidfd: OwnedFd,
    pid: Pid,
}

impl Process {
    /// Opens the process that has this PID now.
    pub fn open(pid: u32) -> Result<Self> {
        let raw = i32::try_from(pid).unwrap_or(i32::MAX);
        let failed = |errno| Error::Process { step: "open", pid: raw, errno };
        let pid = Pid::from_raw(raw).ok_or_else(|| failed(Errno::INVAL))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
        Ok(Self { pidfd, pid })
    }

    /// The calling process.
    pub fn own() -> Result<Self> {
        Self::open(std::process::id())
    }

    /// Its PID, for messages and for as long as it runs.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Whether it is running. A zombie is not.
    pub fn is_running(&self) -> Result<bool> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let ended = poll(&mut fds, Some(&now)).map_err(|errno| self.failed("look at", errno))?;
        Ok(ended == 0)
    }

    /// Waits until it has ended.
    pub fn wait(&self) -> Result<()> {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        loop {
            match poll(&mut fds, None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("wait for", errno)),
            }
        }
    }

    /// Sends it a signal; one that has ended already is no error.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(self.failed("signal", errno)),
        }
    }

    /// The namespaces that it is in, all of the same moment of its life.
    pub fn namespaces(&self) -> Result<Namespaces> {
        let dir = self.ns_dir()?;
        let mut found = BTreeMap::new();
        for kind in NamespaceKind::ALL {
            match statat(&dir, kind.file(), AtFlags::empty()) {
                Ok(stat) => drop(found.insert(kind, NamespaceId { dev: stat.st_dev, ino: stat.st_ino })),
                // A kernel without this kind.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.failed("look at the namespaces of", errno)),
            }
        }
        Ok(Namespaces(found))
    }

    /// One of them, held.
    pub fn namespace(&self, kind: NamespaceKind) -> Result<Namespace> {
        let dir = self.ns_dir()?;
        let fd = rustix::fs::openat(&dir, kind.file(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| self.failed("open a namespace of", errno))?;
        Namespace::of(fd)
    }

    /// Its directory in /proc: everything in it fails once the process is gone.
    fn ns_dir(&self) -> Result<OwnedFd> {
        let path = PathBuf::from(format!("/proc/{}/ns", self.pid()));
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let dir =
            rustix::fs::open(&path, flags, Mode::empty()).map_err(|errno| Error::Open { path, errno })?;
        // Still running after the directory was opened: its PID was not reused before.
        if self.is_running()? { Ok(dir) } else { Err(self.failed("look into", Errno::SRCH)) }
    }

    fn failed(&self, step: &'static str, errno: Errno) -> Error {
        Error::Process { step, pid: self.pid(), errno }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Which namespaces a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces(BTreeMap<NamespaceKind, NamespaceId>);

impl Namespaces {
    /// The one of this kind, where the kernel has such.
    #[must_use]
    pub fn get(&self, kind: NamespaceKind) -> Option<NamespaceId> {
        self.0.get(&kind).copied()
    }

    /// The kinds in which the two are in different namespaces.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = NamespaceKind> + 'a {
        NamespaceKind::ALL.into_iter().filter(|kind| self.get(*kind) != other.get(*kind))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NamespaceKind, NamespaceId)> {
        self.0.iter().map(|(kind, id)| (*kind, *id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_at_one_process_see_the_same() {
        let own = Process::own().unwrap();
        let (one, two) = (own.namespaces().unwrap(), own.namespaces().unwrap());
        assert_eq!(one, two);
        assert_eq!(one.differing(&two).count(), 0);
        assert_eq!(own.namespace(NamespaceKind::Net).unwrap().id(), one.get(NamespaceKind::Net).unwrap());
    }

    #[test]
    fn a_process_that_has_ended_is_no_other() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        child.wait().unwrap();
        process.wait().unwrap();
        assert!(!process.is_running().unwrap());
        assert!(process.namespaces().is_err());
        process.signal(Signal::KILL).unwrap();
    }
}
