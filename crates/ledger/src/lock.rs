//! The one lock around every change: bounded waiting, and a name for whoever has it.
//!
//! A blocking flock hands the lock over in turn, where SQLite's own busy handler sleeps and guesses.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::error::LedgerError;

#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: Arc<File>,
    patience: Duration,
}

/// Held until dropped.
#[derive(Debug)]
pub(crate) struct Guard(Arc<File>);

impl Drop for Guard {
    fn drop(&mut self) {
        // Unlocking can only fail on a closed descriptor; closing unlocks as well.
        let _ = self.0.unlock();
    }
}

impl Lock {
    pub(crate) fn open(path: &Path, patience: Duration) -> Result<Self, LedgerError> {
        let file = Arc::new(open_file(path)?);
        Ok(Self { path: path.to_owned(), file, patience })
    }

    /// Nothing if there is none.
    pub(crate) fn open_existing(path: &Path, patience: Duration) -> Option<Self> {
        let file = Arc::new(OpenOptions::new().write(true).open(path).ok()?);
        Some(Self { path: path.to_owned(), file, patience })
    }

    pub(crate) fn acquire(&self) -> Result<Guard, LedgerError> {
        self.try_acquire()?.map_or_else(|| self.wait(), Ok)
    }

    /// Nothing if somebody else has it.
    pub(crate) fn try_acquire(&self) -> Result<Option<Guard>, LedgerError> {
        match self.file.try_lock() {
            Ok(()) => Ok(Some(Guard(Arc::clone(&self.file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(LedgerError::io("cannot lock", &self.path, e)),
        }
    }

    /// Waits in a thread of its own, because a blocking flock cannot be given a deadline. If we give
    /// up, that thread drops the lock as soon as it gets it.
    fn wait(&self) -> Result<Guard, LedgerError> {
        let file = open_file(&self.path)?;
        let (sender, receiver) = mpsc::channel();
        std::thread::Builder::new()
            .name("ledger-lock".to_owned())
            .spawn(move || {
                let locked = file.lock().map(|()| file);
                // The receiver is gone if the caller gave up: the file is dropped and unlocked here.
                let _ = sender.send(locked);
            })
            .map_err(|e| LedgerError::io("cannot wait for", &self.path, e))?;
        match receiver.recv_timeout(self.patience) {
            Ok(Ok(file)) => Ok(Guard(Arc::new(file))),
            Ok(Err(e)) => Err(LedgerError::io("cannot lock", &self.path, e)),
            Err(_) => Err(LedgerError::Stuck {
                path: self.path.clone(),
                waited: self.patience,
                by: self.file.metadata().ok().and_then(|m| locker(m.ino())),
            }),
        }
    }
}

fn open_file(path: &Path) -> Result<File, LedgerError> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    open.map_err(|e| LedgerError::io("cannot open", path, e))
}

/// The process that has a flock on this inode, from /proc/locks: `1: FLOCK ADVISORY WRITE PID DEV:INO ...`.
fn locker(inode: u64) -> Option<String> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let suffix = format!(":{inode}");
    let pid = locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [_, "FLOCK", _, _, pid, file, ..] if file.ends_with(&suffix) => Some((*pid).to_owned()),
            _ => None,
        }
    })?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_bounded_and_names_who_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let one = Lock::open(&path, Duration::from_millis(50)).unwrap();
        let two = Lock::open(&path, Duration::from_millis(50)).unwrap();
        let guard = one.acquire().unwrap();
        let Err(LedgerError::Stuck { by: Some(by), .. }) = two.acquire() else { panic!("not stuck") };
        assert!(by.starts_with(&format!("process {} (", std::process::id())), "{by}");
        drop(guard);
        // The thread that waited in vain gives the lock back as soon as it has it.
        let patient = Lock::open(&path, Duration::from_secs(20)).unwrap();
        drop(patient.acquire().unwrap());
    }

    #[test]
    fn a_waiter_gets_the_lock_when_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::open(&path, Duration::from_secs(20)).unwrap();
        let guard = lock.acquire().unwrap();
        std::thread::scope(|s| {
            let waiter = s.spawn(|| Lock::open(&path, Duration::from_secs(20)).unwrap().acquire().map(drop));
            drop(guard);
            waiter.join().unwrap().unwrap();
        });
    }
}
