//! Open descriptors in `/proc/PID/fd`.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use kernel::NamespaceKind;
use rustix::fs::RawDir;
use rustix::io::Errno;

use super::kinds::linked;
use super::walk::open_directory;

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
    /// The descriptors of the task whose directory is `task` that refer to a namespace: its kind and inode,
    /// and their number.
    pub(crate) fn namespaces(&mut self, task: impl AsFd) -> Result<Vec<(NamespaceKind, u64, u32)>, Errno> {
        let directory = open_directory(task, "fd")?;
        let mut found = Vec::new();
        for number in self.numbers(&directory)? {
            let name = rustix::path::DecInt::new(number);
            let link = match rustix::fs::readlinkat_raw(&directory, name.as_c_str(), &mut self.link) {
                Ok((link, _)) => link,
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(e),
            };
            if let Some((kind, inode)) = linked(link) {
                found.push((kind, inode, number));
            }
        }
        Ok(found)
    }

    fn numbers(&mut self, directory: &OwnedFd) -> Result<Vec<u32>, Errno> {
        let mut numbers = Vec::new();
        let mut entries = RawDir::new(directory, &mut self.entries);
        while let Some(entry) = entries.next() {
            numbers.extend(entry?.file_name().to_str().ok().and_then(|n| n.parse::<u32>().ok()));
        }
        Ok(numbers)
    }
}
