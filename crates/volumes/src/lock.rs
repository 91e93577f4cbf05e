//! Locks of open directories.

use std::os::fd::AsFd as _;
use std::time::Duration;

use durable::Guard;
use kernel::Dir;

/// The timeout of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// None.
    Forever,
    /// At most so long.
    UpTo(Duration),
}

/// Locks this descriptor of a directory until `dir` is dropped. Threads that are to exclude each other need a
/// descriptor each.
pub(crate) fn hold(dir: &Dir, wait: Wait) -> durable::Result<()> {
    let path = dir.path();
    let copy = dir.as_fd().try_clone_to_owned();
    let copy = copy.map_err(|cause| durable::Error::Io { action: "lock", path: path.to_owned(), cause })?;
    let guard = match wait {
        Wait::Forever => Guard::wait(copy, path)?,
        Wait::UpTo(patience) => Guard::lock(copy, path, patience)?,
    };
    // `dir` is the other copy of the descriptor: it keeps the lock when this one is closed.
    guard.into_fd(path).map(drop)
}
