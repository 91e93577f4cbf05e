//! Who looks after a pod: whoever has its lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};

/// The lock's file, in a pod's directory.
pub(crate) const LOCK: &str = "agent.lock";
const NAMES: &str = "pods.lock";

/// Whoever only asks whether a pod is tended has its lock for a moment, too: so often and so long that is
/// waited for.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(10);

/// Held by whoever looks after a pod.
#[derive(Debug)]
pub(crate) struct Tended(#[cfg_attr(not(test), expect(dead_code, reason = "held for its lock"))] File);

impl Tended {
    /// Makes the directory and takes the pod; none if somebody else has it.
    pub(crate) fn take(dir: &Path) -> Result<Option<Self>> {
        for _ in 0..TRIES {
            let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(dir);
            made.map_err(Error::file("make", dir))?;
            let path = dir.join(LOCK);
            let file = match lockable(&path) {
                // Whoever had the pod has just removed its directory.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(Error::file("open", &path))?,
            };
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Some(Self(file))),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(cause)) => return Err(Error::File { what: "lock", path, cause }),
            }
        }
        Ok(None)
    }
}

/// Held while a name is looked up and given away: two pods of one name would both find that there is none.
#[derive(Debug)]
pub(crate) struct Names(#[expect(dead_code, reason = "held for its lock")] File);

impl Names {
    /// Waits for whoever has it: they write two files at most.
    pub(crate) fn lock(state: &Path) -> Result<Self> {
        let path = state.join(NAMES);
        let file = lockable(&path).map_err(Error::file("open", &path))?;
        file.lock().map_err(Error::file("lock", &path))?;
        Ok(Self(file))
    }
}

fn lockable(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Whether this is the file that the path leads to: a lock on one that was removed keeps nobody out.
fn is_at(file: &File, path: &Path) -> bool {
    let same =
        |file: fs::Metadata, there: fs::Metadata| (file.dev(), file.ino()) == (there.dev(), there.ino());
    file.metadata().and_then(|f| fs::metadata(path).map(|there| same(f, there))).unwrap_or(false)
}

/// Whether somebody looks after the pod whose directory this is.
pub(crate) fn is_tended(dir: &Path) -> bool {
    let Ok(file) = File::options().write(true).open(dir.join(LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
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
                            assert!(is_at(&tended.0, &place.join(LOCK)));
                            fs::remove_file(place.join(LOCK)).unwrap();
                            let _ = fs::remove_dir(&place);
                        }
                    }
                });
            }
        });
    }
}
