use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

const PAUSE: Duration = Duration::from_millis(10);

/// A lock, held until dropped: by this process only, and gone with it.
#[derive(Debug)]
pub(crate) struct Guard {
    _file: File,
}

/// Waits for the lock, but not for ever.
pub(crate) fn acquire(path: &Path, patience: Duration) -> Result<Guard> {
    let begun = Instant::now();
    loop {
        if let Some(guard) = attempt(path)? {
            return Ok(guard);
        }
        if begun.elapsed() >= patience {
            return Err(Error::Stuck { path: path.to_owned(), waited: patience });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits for the lock as long as whoever has it works: a layer takes as long as it takes. `waiting` is
/// asked again and again whether to go on.
pub(crate) fn wait(path: &Path, waiting: &mut dyn FnMut() -> Result<()>) -> Result<Guard> {
    loop {
        if let Some(guard) = attempt(path)? {
            return Ok(guard);
        }
        waiting()?;
        std::thread::sleep(PAUSE);
    }
}

/// The lock, unless somebody has it.
pub(crate) fn attempt(path: &Path) -> Result<Option<Guard>> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = open.map_err(Error::io("cannot open", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(Error::io("cannot lock", path)(error)),
    }
    // The file may have been removed, and another made, between opening and locking: then this is no lock.
    let held = file.metadata().map_err(Error::io("cannot read", path))?;
    let same = fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (held.dev(), held.ino()));
    Ok(same.then_some(Guard { _file: file }))
}

/// Locks a directory that is there.
pub(crate) fn of_directory(path: &Path) -> Result<Option<Guard>> {
    let file = File::open(path).map_err(Error::io("cannot open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Guard { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("cannot lock", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_persons_and_waiting_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let guard = acquire(&path, Duration::ZERO).unwrap();
        assert!(attempt(&path).unwrap().is_none());
        assert!(matches!(acquire(&path, Duration::ZERO), Err(Error::Stuck { .. })));
        drop(guard);
        assert!(attempt(&path).unwrap().is_some());
    }

    #[test]
    fn the_lock_of_a_removed_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = acquire(&path, Duration::ZERO).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(attempt(&path).unwrap().is_some(), "a new file is a new lock");
        drop(first);
    }
}
