//! A pod's directory, held and locked.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kernel::{Dir, DirMode, Owner, Within};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::layout::{DIR_MODE, PODS, SUB_PATHS, VOLUMES};
use crate::lock::{self, Wait};
use types::PodUid;

/// What a directory of ours has.
pub(crate) const OURS: DirMode = DirMode { mode: DIR_MODE, owner: Some(Owner::ROOT) };

/// A pod's directory, locked. No other process changes the pod's volumes as long as this lives.
#[derive(Debug)]
pub(crate) struct PodDir {
    dir: Dir,
    pods: Dir,
    uid: PodUid,
}

/// Whether a pod's directory that is missing is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Make,
    Leave,
}

impl PodDir {
    /// Waits until no other process has the lock of the pod.
    pub(crate) fn lock(state: &Dir, uid: &PodUid, if_missing: IfMissing) -> Result<Option<Self>> {
        let Some(pods) = pods(state, if_missing)? else { return Ok(None) };
        loop {
            let dir = match if_missing {
                IfMissing::Make => pods.make_dirs(Path::new(uid.as_str()), OURS)?,
                IfMissing::Leave => match open(&pods, uid)? {
                    Some(dir) => dir,
                    None => return Ok(None),
                },
            };
            lock::hold(&dir, Wait::Forever)?;
            // The previous holder of the lock may have removed the directory: this descriptor would then be of an
            // orphan.
            let still = open(&pods, uid)?.map(|now| now.stat()).transpose()?;
            if still.is_some_and(|now| dir.stat().is_ok_and(|held| held.same_file(&now))) {
                if if_missing == IfMissing::Make {
                    pods.sync()?;
                }
                return Ok(Some(Self { dir, pods, uid: uid.clone() }));
            }
        }
    }

    pub(crate) fn uid(&self) -> &PodUid {
        &self.uid
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The path of something in it, as mountinfo has it.
    pub(crate) fn path(&self, below: &Path) -> PathBuf {
        self.dir.path().join(below)
    }

    /// The directory at `below`, which no link leads to.
    pub(crate) fn open(&self, below: &Path) -> Result<Dir> {
        Ok(self.dir.open_below(below, Within::NoLinks)?)
    }

    /// The same; `None` where it is missing.
    pub(crate) fn find(&self, below: &Path) -> Result<Option<Dir>> {
        match self.dir.open_below(below, Within::NoLinks) {
            Ok(dir) => Ok(Some(dir)),
            Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a directory of ours with all on the way to it.
    pub(crate) fn make(&self, below: &Path) -> Result<Dir> {
        Ok(self.dir.make_dirs(below, OURS)?)
    }

    /// Whether there is anything in it that a record should tell of.
    pub(crate) fn has_volumes(&self) -> Result<bool> {
        for name in [VOLUMES, SUB_PATHS] {
            // An empty one is part of every pod's directory.
            if self
                .find(Path::new(name))?
                .map(|dir| dir.entries())
                .transpose()?
                .is_some_and(|e| !e.is_empty())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes empty directories from `below` upwards, as far as they are empty.
    pub(crate) fn prune(&self, below: &Path) -> Result<()> {
        for path in below.ancestors().filter(|p| !p.as_os_str().is_empty()) {
            let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name());
            let (Some(parent), Some(name)) = (self.find(parent)?, name) else { continue };
            if !remove_empty(&parent, name)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Removes the directory itself, unless another program has files in it.
    pub(crate) fn remove(self) -> Result<()> {
        remove_empty(&self.pods, OsStr::new(self.uid.as_str()))?;
        Ok(self.pods.sync()?)
    }
}

fn pods(state: &Dir, if_missing: IfMissing) -> Result<Option<Dir>> {
    match if_missing {
        IfMissing::Make => Ok(Some(state.make_dirs(Path::new(PODS), OURS)?)),
        IfMissing::Leave => match state.open_below(Path::new(PODS), Within::NoLinks) {
            Ok(pods) => Ok(Some(pods)),
            Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        },
    }
}

/// All pods that have a directory, as far as their names are names of pods.
pub(crate) fn all(state: &Dir) -> Result<Vec<PodUid>> {
    let Some(pods) = pods(state, IfMissing::Leave)? else { return Ok(vec![]) };
    let names = pods.entries()?.into_iter().filter(|e| e.kind == kernel::Kind::Directory);
    Ok(names.filter_map(|e| PodUid::new(e.name.into_string().ok()?).ok()).collect())
}

/// A pod's directory, not locked: what is in it may change.
pub(crate) fn peek(state: &Dir, uid: &PodUid, if_missing: IfMissing) -> Result<Option<Dir>> {
    match pods(state, if_missing)? {
        Some(pods) => open(&pods, uid),
        None => Ok(None),
    }
}

fn open(pods: &Dir, uid: &PodUid) -> Result<Option<Dir>> {
    match pods.open_below(Path::new(uid.as_str()), Within::NoLinks) {
        Ok(dir) => Ok(Some(dir)),
        Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the directory is gone. One that is not empty stays, and so does one with a mount on it.
fn remove_empty(parent: &Dir, name: &OsStr) -> Result<bool> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => Ok(false),
        Err(errno) => Err(Error::io("remove", &parent.path().join(name), errno)),
    }
}
