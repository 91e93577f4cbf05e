//! The server's files and directories, closed to other users, with the errors of this crate.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use durable::Guard;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// A user that can read a record can read a pod's environment.
const DIR_MODE: u32 = 0o700;
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Puts `value` in place of what the JSON file holds; it survives power loss when this returns.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let mut text = serde_json::to_vec(value).map_err(|cause| Error::Json { path: path.to_owned(), cause })?;
    text.push(b'\n');
    Ok(durable::write(path, &text)?)
}

/// What is in the JSON file; `None` if there is none.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    Ok(durable::read_json(path)?)
}

/// Removes the file, durably; a missing one is no error.
pub(crate) fn remove(path: &Path) -> Result<()> {
    Ok(durable::remove(path).map(drop)?)
}

/// Creates the directory and all above it that are missing, closed to other users; their names survive power loss.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    Ok(durable::make_dirs(path, DIR_MODE)?)
}

/// The same with mode 0711: the root of a pod's user namespace is an unprivileged user of the host, and must reach the
/// pod's files below.
pub(crate) fn make_passable_dir(path: &Path) -> Result<()> {
    let failed = |cause| Error::File { what: "let pods pass through", path: path.to_owned(), cause };
    make_dir(path)?;
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 | 0o011)).map_err(failed)
}

/// Whether the root of every pod's user namespace can pass to a directory.
///
/// # Errors
/// [`Error::Closed`] if a directory on the path lacks search permission for others.
pub(crate) fn check_passable(path: &Path) -> Result<()> {
    let is_closed =
        |dir: &&Path| fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & 0o001 == 0);
    match path.ancestors().find(is_closed) {
        Some(dir) => Err(Error::Closed { dir: dir.to_owned() }),
        None => Ok(()),
    }
}

/// Takes the lock of a file or directory, which is in use if another server holds it.
///
/// A server that was killed may have been about to start a program, which holds the lock until it begins; the patience
/// covers that.
pub(crate) fn lock(file: impl Into<OwnedFd>, path: &Path) -> Result<Option<Guard>> {
    match Guard::lock(file, path, LOCK_PATIENCE) {
        Ok(guard) => Ok(Some(guard)),
        Err(durable::Error::Locked { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes a directory of ours away with all below it; none there is fine. No mount is ever entered.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    kernel::Dir::open(parent)?.remove_tree(name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_that_pods_cannot_pass_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (closed, path) = (dir.path().join("closed"), dir.path().join("closed/a/b"));
        fs::create_dir_all(&path).unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        open(dir.path(), 0o711);
        open(&closed, 0o700);
        let error = check_passable(&path).unwrap_err();
        assert!(matches!(&error, Error::Closed { dir } if *dir == closed), "{error}");
        assert!(error.hint().unwrap().contains(&format!("chmod o+x {}", closed.display())));
        open(&closed, 0o701);
        check_passable(&path).unwrap();
    }

    #[test]
    fn a_record_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        assert_eq!(read::<u32>(&path).unwrap(), None);
        write(&path, &1).unwrap();
        write(&path, &2).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), Some(2));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), None);
    }

    #[test]
    fn a_damaged_record_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        fs::write(&path, "{").unwrap();
        assert!(read::<u32>(&path).unwrap_err().to_string().contains("a.json"));
    }
}
