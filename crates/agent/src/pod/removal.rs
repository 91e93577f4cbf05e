//! Removal of files and directories that may be gone already.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// Removes a directory with all below it; a missing one is no error. No link is followed, and no mount is entered.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    if !parent.exists() {
        return Ok(());
    }
    let removed = kernel::Dir::open(parent).and_then(|dir| dir.remove_tree(name));
    removed.map(drop).map_err(|cause| Error::file("remove", path)(io::Error::other(cause.to_string())))
}

/// Removes a file; a missing one is no error.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    gone(fs::remove_file(path)).map_err(Error::file("remove", path))
}

/// Takes what is missing for removed.
pub(crate) fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
