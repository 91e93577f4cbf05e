//! The lock of a pod: the process that holds it manages the pod.

use std::path::Path;
use std::time::Duration;

use durable::{Guard, Lock};

use crate::error::Result;

/// Name of the lock file in a pod's directory.
pub(crate) const LOCK: &str = "agent.lock";
const NAMES: &str = "pods.lock";

/// A process that checks whether a pod is managed also holds the pod's lock, for a moment: `take` retries so
/// often, with a pause in between.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(10);

/// The lock that the process that manages a pod holds.
#[derive(Debug)]
pub(crate) struct PodLock(#[cfg_attr(not(test), expect(dead_code, reason = "held for its lock"))] Guard);

impl PodLock {
    /// Creates the directory and takes the lock; `None` if another process holds it.
    pub(crate) fn take(dir: &Path) -> Result<Option<Self>> {
        let lock = Lock::at(dir.join(LOCK));
        for _ in 0..TRIES {
            durable::make_dirs(dir, 0o750)?;
            match lock.try_acquire() {
                Ok(Some(guard)) => return Ok(Some(Self(guard))),
                Ok(None) => std::thread::sleep(PAUSE),
                // The previous holder has just removed the directory.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// The lock that a process holds while it looks up a pod's name and records the pod: without it, two
/// processes could record the same name.
#[derive(Debug)]
pub(crate) struct Names(#[expect(dead_code, reason = "held for its lock")] Guard);

impl Names {
    /// Waits for the holder, which writes at most two files.
    pub(crate) fn lock(state: &Path) -> Result<Self> {
        Ok(Self(Lock::at(state.join(NAMES)).wait()?))
    }
}

/// Whether a process manages the pod of this directory.
pub(crate) fn is_managed(dir: &Path) -> bool {
    Lock::at(dir.join(LOCK)).is_held()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// `ps` holds the lock for a moment each time it checks.
    #[test]
    fn whoever_only_looks_keeps_nobody_from_a_pod() {
        let dir = tempfile::tempdir().unwrap();
        drop(PodLock::take(dir.path()).unwrap());
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    is_managed(dir.path());
                }
            });
            for _ in 0..200 {
                assert!(PodLock::take(dir.path()).unwrap().is_some());
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    /// The lock that is taken is the one at the path, however often the directory is removed.
    #[test]
    fn a_pod_is_never_taken_by_a_lock_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("u-1");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if let Ok(Some(lock)) = PodLock::take(&place) {
                            let held = rustix::fs::fstat(&lock.0).unwrap();
                            let there = rustix::fs::stat(place.join(LOCK)).unwrap();
                            assert_eq!((held.st_dev, held.st_ino), (there.st_dev, there.st_ino));
                            fs::remove_file(place.join(LOCK)).unwrap();
                            let _ = fs::remove_dir(&place);
                        }
                    }
                });
            }
        });
    }
}
