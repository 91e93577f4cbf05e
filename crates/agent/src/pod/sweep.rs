//! Directories of pods without a record: a process was killed before it wrote the record, or after it removed it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::error::{Error, Result};
use crate::pod::lock::{LOCK, Names};
use crate::pod::store::Place;

/// Removes the directories that a killed process left of pods without a record, for a command that starts no pods.
///
/// # Errors
/// If the state directory cannot be locked. A directory that cannot be removed is logged, and kept.
pub fn sweep_state(state: &Path) -> Result<()> {
    if state.join("pods").exists() {
        sweep(state, &Names::lock(state)?);
    }
    Ok(())
}

/// Removes directories of pods without a record: those with a lock that no process holds, and empty ones. A failure is
/// logged: it keeps no pod from being started.
pub(crate) fn sweep(state: &Path, _names: &Names) {
    for entry in fs::read_dir(state.join("pods")).into_iter().flatten().flatten() {
        let dir = entry.path();
        let place = Place { files: dir.clone(), dir, logs: PathBuf::new(), log_links: None };
        if let Err(error) = one(&place) {
            warn!("what a process left of a pod without a record is not removed: {error}");
        }
    }
}

fn one(place: &Place) -> Result<()> {
    // An empty one: a process that is about to lock it creates it again.
    if fs::remove_dir(&place.dir).is_ok() || !is_bare(place) {
        return Ok(());
    }
    let Some(_lock) = place.take()? else { return Ok(()) };
    if !is_bare(place) {
        return Ok(());
    }
    match place.remove() {
        // It has files that are not of a pod's record: keep it.
        Err(Error::File { cause, .. }) if cause.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        swept => swept,
    }
}

fn is_bare(place: &Place) -> bool {
    !place.has_record() && place.dir.join(LOCK).exists()
}

#[cfg(test)]
mod tests {
    use types::PodUid;

    use super::*;

    #[test]
    fn a_directory_without_a_record_is_swept_unless_a_process_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let place = |uid: &str| Place::new(dir.path(), &PodUid::new(uid).unwrap(), "default", "web");
        let [left, taken, foreign, empty] = ["left", "taken", "foreign", "empty"].map(place);
        drop(left.take().unwrap());
        fs::write(left.dir.join("agent.new"), "{").unwrap();
        let _lock = taken.take().unwrap();
        fs::create_dir_all(&foreign.dir).unwrap();
        fs::write(foreign.dir.join("file"), "x").unwrap();
        fs::create_dir_all(&empty.dir).unwrap();
        sweep_state(dir.path()).unwrap();
        assert!(!left.dir.exists() && taken.dir.exists() && foreign.dir.join("file").exists());
        assert!(!empty.dir.exists(), "a process was killed after it removed the lock");
    }

    /// The first failure kept every pod of the state directory from being started.
    #[test]
    fn a_directory_that_cannot_be_removed_keeps_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let place = |uid: &str| Place::new(dir.path(), &PodUid::new(uid).unwrap(), "default", "web");
        let (wrong, left) = (place("wrong"), place("left"));
        drop(left.take().unwrap());
        // Where a file of a record is expected there is a directory.
        drop(wrong.take().unwrap());
        fs::create_dir(wrong.dir.join("status.json")).unwrap();
        sweep_state(dir.path()).unwrap();
        assert!(wrong.dir.exists() && !left.dir.exists());
    }
}
