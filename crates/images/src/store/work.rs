use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use durable::{Guard, Lock};
use serde::{Deserialize, Serialize};

use super::lock;
use super::{Store, make_dir};
use crate::digest::Digest;
use crate::error::{Error, Result};

const NEEDS: &str = "needs.json";

/// What a process with work in progress needs: it counts as used until the work ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Needs {
    pub(crate) layers: Vec<Digest>,
    pub(crate) blobs: Vec<Digest>,
}

/// A directory for work in progress. Its lock ends with the process; the next sweep then removes the directory.
#[derive(Debug)]
pub(crate) struct Work {
    path: PathBuf,
    _alive: Guard,
}

impl Store {
    pub(crate) fn begin(&self) -> Result<Work> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Under the lock, because a sweeper must never see the directory without its own.
        let _guard = self.lock()?;
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = self.folder("work").join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let alive = lock::of_directory(&path)?;
                    let alive =
                        alive.ok_or_else(|| Error::Stuck { path: path.clone(), waited: self.patience })?;
                    return Ok(Work { path, _alive: alive });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("make", &path)(error)),
            }
        }
    }

    /// Removes work directories of dead processes. If another process has the store's lock, that process does it
    /// instead.
    pub(crate) fn sweep(&self) -> Result<()> {
        let Some(_guard) = Lock::at(self.folder("lock")).try_acquire()? else { return Ok(()) };
        self.sweep_locked()
    }

    pub(crate) fn sweep_locked(&self) -> Result<()> {
        let dir = self.dir("work")?;
        for entry in dir.entries()? {
            let path = self.folder("work").join(&entry.name);
            if lock::of_directory(&path)?.is_some() {
                dir.remove_tree(&entry.name)?;
            }
        }
        Ok(())
    }

    /// What all work in progress needs. The store's lock must be held.
    pub(crate) fn needs(&self) -> Result<Needs> {
        let mut all = Needs::default();
        for entry in self.dir("work")?.entries()? {
            let path = self.folder("work").join(&entry.name).join(NEEDS);
            match fs::read(&path) {
                Ok(text) => {
                    let needs: Needs = serde_json::from_slice(&text)
                        .map_err(|error| Error::Record { path, why: error.to_string() })?;
                    all.layers.extend(needs.layers);
                    all.blobs.extend(needs.blobs);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read", &path)(error)),
            }
        }
        Ok(all)
    }
}

impl Work {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Says what must not be collected from now on.
    pub(crate) fn need(&self, store: &Store, needs: &Needs) -> Result<()> {
        let text = serde_json::to_vec(needs)
            .map_err(|error| Error::Record { path: self.path.join(NEEDS), why: error.to_string() })?;
        let _guard = store.lock()?;
        Ok(durable::write(&self.path.join(NEEDS), &text)?)
    }

    /// An empty directory of this name, whatever was there before.
    pub(crate) fn room(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        if path.exists() {
            self.discard(name)?;
        }
        make_dir(&path)?;
        Ok(path)
    }

    pub(crate) fn discard(&self, name: &str) -> Result<()> {
        kernel::Dir::open(&std::path::absolute(&self.path).map_err(Error::io("find", &self.path))?)?
            .remove_tree(OsStr::new(name))?;
        Ok(())
    }
}

impl Drop for Work {
    /// What cannot be removed now is swept away later.
    fn drop(&mut self) {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else { return };
        let Ok(parent) = std::path::absolute(parent) else { return };
        let _ = kernel::Dir::open(&parent).and_then(|dir| dir.remove_tree(name));
    }
}
