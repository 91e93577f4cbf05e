//! Files that are whole or not there, also after a crash.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Whoever may read a record may read a pod's environment.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Writes `value` beside `path` and renames it there; it is on disk on return.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let mut text = serde_json::to_vec(value).map_err(|cause| Error::Json { path: path.to_owned(), cause })?;
    text.push(b'\n');
    replace(path, &text)
}

fn replace(path: &Path, text: &[u8]) -> Result<()> {
    let failed = |what| move |cause| Error::File { what, path: path.to_owned(), cause };
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(&beside)
        .map_err(failed("write"))?;
    file.write_all(text).and_then(|()| file.sync_all()).map_err(failed("write"))?;
    fs::rename(&beside, path).map_err(failed("write"))?;
    sync_parent(path)
}

/// What is in the file; `None` if there is none.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|cause| Error::Json { path: path.to_owned(), cause }),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::File { what: "read", path: path.to_owned(), cause }),
    }
}

/// Takes the file away for good; none there is fine.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(Error::File { what: "remove", path: path.to_owned(), cause }),
    }
}

/// The directory and all above it that are missing, for us alone.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(path).map_err(|cause| Error::File {
        what: "make",
        path: path.to_owned(),
        cause,
    })
}

/// The same, for everybody to pass through and nobody else to list: the root of a pod's user namespace is some
/// user of the host on its way to the pod's files.
pub(crate) fn make_passable_dir(path: &Path) -> Result<()> {
    let failed = |cause| Error::File { what: "let pods pass through", path: path.to_owned(), cause };
    make_dir(path)?;
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 | 0o011)).map_err(failed)
}

/// Takes the lock of a file. A server that was killed may have been about to start a program, which has the lock
/// until it begins: that is waited for.
pub(crate) fn lock(file: &File) -> Result<(), TryLockError> {
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_PATIENCE => sleep(LOCK_PAUSE),
            outcome => return outcome,
        }
    }
}

fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or_else(|| Path::new("/"));
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(|cause| Error::File {
        what: "sync",
        path: parent.to_owned(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
