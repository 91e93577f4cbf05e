//! The kernel's own threads: there may be more of them than of all others, and all that they have is the host's.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;

use super::super::status::{Credentials, read_status};
use super::{open_path, read_into};

/// The one that makes all others, if it is what it says.
const MAKER: u32 = 2;

/// What the kernel's maker of threads has made. Among that are programs which the kernel has started, such as
/// those that take core dumps.
#[derive(Debug, Default)]
pub(super) struct KernelThreads {
    made: HashSet<u32>,
    numbers_are_ours: bool,
}

impl KernelThreads {
    /// None where that is not known: then every task is read.
    pub(super) fn of(proc: &OwnedFd, numbers_are_ours: bool) -> Self {
        Self { made: made(proc).unwrap_or_default(), numbers_are_ours }
    }

    /// Whether this is one. A number that is another task's by now is that of one which came after the look began.
    pub(super) fn has(&self, proc: &OwnedFd, pid: u32) -> bool {
        // A program has a file, and memory; a thread of the kernel has neither.
        let memory = || self.numbers_are_ours && kernel::share_memory(MAKER, pid);
        let file = || rustix::fs::readlinkat(proc, format!("{pid}/exe"), Vec::with_capacity(64));
        self.made.contains(&pid) && (memory() || matches!(file(), Err(Errno::NOENT)))
    }
}

fn made(proc: &OwnedFd) -> Option<HashSet<u32>> {
    let maker = open_path(proc, MAKER.to_string()).ok()?;
    let mut text = Vec::new();
    read_into(maker.as_fd(), "status", &mut text).ok()?;
    read_status(&text, &mut Credentials::default()).filter(|status| status.kernel_thread)?;
    read_into(maker.as_fd(), format!("task/{MAKER}/children"), &mut text).ok()?;
    let numbers = std::str::from_utf8(&text).ok()?.split_ascii_whitespace().map(str::parse);
    numbers.collect::<Result<_, _>>().ok()
}
