//! Open descriptors in `/proc/PID/fd`.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use kernel::NamespaceKind;
use rustix::fs::RawDir;
use rustix::io::Errno;

use super::kinds::linked;
use super::walk::open_directory;

/// How many descriptors are still to be looked at, of all tasks together. Any user can have hundreds of thousands, and
/// each takes some microseconds.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    pub(crate) fn of(descriptors: usize) -> Self {
        Self(Cell::new(descriptors))
    }

    /// Every one that there is.
    pub(crate) fn all() -> Self {
        Self::of(usize::MAX)
    }

    /// Whether one more is to be looked at.
    fn take(&self) -> bool {
        let less = self.0.get().checked_sub(1);
        self.0.set(less.unwrap_or(0));
        less.is_some()
    }
}

/// The namespaces that a task has open.
#[derive(Debug, Default)]
pub(crate) struct OpenNamespaces {
    /// The kind and the inode of each, and the number of the descriptor.
    pub(crate) namespaces: Vec<(NamespaceKind, u64, u32)>,
    /// Whether there are descriptors that were not looked at.
    pub(crate) left: bool,
}

/// Buffers that live as long as a walk.
pub(crate) struct FdReader {
    entries: Vec<MaybeUninit<u8>>,
    link: [MaybeUninit<u8>; 64],
}

impl Default for FdReader {
    fn default() -> Self {
        Self { entries: vec![MaybeUninit::uninit(); 16 * 1024], link: [MaybeUninit::uninit(); 64] }
    }
}

impl FdReader {
    /// The descriptors of the task whose directory is `task` that refer to a namespace, as far as `budget` goes.
    pub(crate) fn namespaces(&mut self, task: impl AsFd, budget: &Budget) -> Result<OpenNamespaces, Errno> {
        let directory = open_directory(task, "fd")?;
        let mut found = OpenNamespaces::default();
        let (numbers, left) = self.numbers(&directory, budget)?;
        found.left = left;
        for number in numbers {
            let name = rustix::path::DecInt::new(number);
            let link = match rustix::fs::readlinkat_raw(&directory, name.as_c_str(), &mut self.link) {
                Ok((link, _)) => link,
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(e),
            };
            if let Some((kind, inode)) = linked(link) {
                found.namespaces.push((kind, inode, number));
            }
        }
        Ok(found)
    }

    /// Those that are to be looked at, and whether there are more. Their list alone takes long: it is not read to its end.
    fn numbers(&mut self, directory: &OwnedFd, budget: &Budget) -> Result<(Vec<u32>, bool), Errno> {
        let mut numbers = Vec::new();
        let mut entries = RawDir::new(directory, &mut self.entries);
        while let Some(entry) = entries.next() {
            let Some(number) = entry?.file_name().to_str().ok().and_then(|n| n.parse::<u32>().ok()) else {
                continue;
            };
            if !budget.take() {
                return Ok((numbers, true));
            }
            numbers.push(number);
        }
        Ok((numbers, false))
    }
}
