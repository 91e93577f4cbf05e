use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

use crate::error::{Error, Result};
use crate::task::Task;

const BOOT_ID: &str = "sys/kernel/random/boot_id";

/// A proc filesystem, held open.
#[derive(Debug)]
pub struct Proc {
    dir: OwnedFd,
    path: PathBuf,
}

impl Proc {
    /// The one that this process sees at `/proc`.
    pub fn own() -> Result<Self> {
        Self::at(Path::new("/proc"))
    }

    /// The one at a path: that of the host, where it is mounted below another root.
    pub fn at(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(CWD, path, flags, Mode::empty()) {
            Ok(dir) => Ok(Self { dir, path: path.to_owned() }),
            Err(errno) => Err(Error::io("open", path.to_owned())(errno)),
        }
    }

    /// The numbers of all processes that it shows, in no order. Any of them may have ended by now.
    pub fn pids(&self) -> Result<Vec<u32>> {
        numbers(&self.dir).map_err(Error::io("list", self.path.clone()))
    }

    /// The process that has this number now.
    pub fn process(&self, pid: u32) -> Result<Task> {
        Task::open_in(self.dir.as_fd(), &self.path, &pid.to_string(), pid)
    }

    /// All processes. One that ends meanwhile is left out; one that may not be opened is an error of its own.
    pub fn processes(&self) -> Result<impl Iterator<Item = Result<Task>> + use<'_>> {
        let opened = |pid| match self.process(pid) {
            Err(error) if error.is_gone() => None,
            opened => Some(opened),
        };
        Ok(self.pids()?.into_iter().filter_map(opened))
    }

    /// The present boot of the machine, as a UUID.
    pub fn boot_id(&self) -> Result<String> {
        boot_id(&self.path)
    }
}

impl AsFd for Proc {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The present boot of the machine, as a UUID, from the proc filesystem at `proc`.
pub fn boot_id(proc: &Path) -> Result<String> {
    let path = proc.join(BOOT_ID);
    match std::fs::read_to_string(&path) {
        Err(cause) => Err(Error::Io { action: "read", path, cause }),
        Ok(text) => match text.trim() {
            "" => Err(Error::Format { path, why: "it is empty" }),
            id => Ok(id.to_owned()),
        },
    }
}

/// The names in a directory of proc that are numbers.
pub fn numbers(dir: impl AsFd) -> rustix::io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        found.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_among_all() {
        let proc = Proc::own().unwrap();
        assert!(proc.pids().unwrap().contains(&std::process::id()));
        let mut all = proc.processes().unwrap();
        assert!(all.any(|task| task.is_ok_and(|task| task.id() == std::process::id())));
        assert!(proc.process(u32::MAX).unwrap_err().is_gone());
    }

    #[test]
    fn a_boot_has_one_id() {
        let id = Proc::own().unwrap().boot_id().unwrap();
        assert_eq!((id.len(), &id), (36, &boot_id(Path::new("/proc")).unwrap()));
        let missing = boot_id(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/sys/kernel/random/boot_id"), "{missing}");
    }
}
