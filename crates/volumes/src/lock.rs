//! Locks of directories that are held open.

use std::os::fd::AsFd as _;
use std::time::Duration;

use durable::Guard;
use kernel::Dir;

/// How long a lock is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// As long as another process holds it.
    Forever,
    /// So long at most.
    UpTo(Duration),
}

/// Locks this opening of a directory until `dir` is dropped. Threads that are to exclude each other need an opening each.
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
