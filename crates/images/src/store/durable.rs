//! Files that are whole or not there, whenever the power goes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Replaces the file as a whole. The store's lock must be held: the file beside it has one name.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let fresh = beside(path);
    write(&fresh, content)?;
    fs::rename(&fresh, path).map_err(Error::io("cannot replace", path))?;
    sync_dir(path.parent().unwrap_or(path))
}

/// A new file that is on disk.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(Error::io("cannot write", path))
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|dir| dir.sync_all());
    synced.map_err(Error::io("cannot sync", path))
}

/// Removes a file, durably; none there is fine.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_dir(path.parent().unwrap_or(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("cannot remove", path)(error)),
    }
}

pub(crate) const UNFINISHED: &str = ".new";

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(UNFINISHED);
    name.into()
}
