//! Who looks after a pod: whoever has its lock.

use std::path::Path;
use std::time::Duration;

use durable::{Guard, Lock};

use crate::error::Result;

/// The lock's file, in a pod's directory.
pub(crate) const LOCK: &str = "agent.lock";
const NAMES: &str = "pods.lock";

/// Whoever only asks whether a pod is tended has its lock for a moment, too: so often and so long that is
/// waited for.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(10);

/// Held by whoever looks after a pod.
#[derive(Debug)]
pub(crate) struct Tended(#[cfg_attr(not(test), expect(dead_code, reason = "held for its lock"))] Guard);

impl Tended {
    /// Makes the directory and takes the pod; none if somebody else has it.
    pub(crate) fn take(dir: &Path) -> Result<Option<Self>> {
        let lock = Lock::at(dir.join(LOCK));
        for _ in 0..TRIES {
            durable::make_dirs(dir, 0o750)?;
            match lock.try_acquire() {
                Ok(Some(guard)) => return Ok(Some(Self(guard))),
                Ok(None) => std::thread::sleep(PAUSE),
                // The process that had the pod has just removed its directory.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// Held while a name is looked up and given away: two pods of one name would both find that there is none.
#[derive(Debug)]
pub(crate) struct Names(#[expect(dead_code, reason = "held for its lock")] Guard);

impl Names {
    /// Waits for whoever has it: they write two files at most.
    pub(crate) fn lock(state: &Path) -> Result<Self> {
        Ok(Self(Lock::at(state.join(NAMES)).wait()?))
    }
}

/// Whether a process looks after the pod whose directory this is.
pub(crate) fn is_tended(dir: &Path) -> bool {
    Lock::at(dir.join(LOCK)).is_held()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// `ps` has the lock for a moment each time it looks.
    #[test]
    fn whoever_only_looks_keeps_nobody_from_a_pod() {
        let dir = tempfile::tempdir().unwrap();
        drop(Tended::take(dir.path()).unwrap());
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    is_tended(dir.path());
                }
            });
            for _ in 0..200 {
                assert!(Tended::take(dir.path()).unwrap().is_some());
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    /// The lock that is taken is the one that others will look at, however often the directory goes.
    #[test]
    fn a_pod_is_never_taken_by_a_lock_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("u-1");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if let Ok(Some(tended)) = Tended::take(&place) {
                            let held = rustix::fs::fstat(&tended.0).unwrap();
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
