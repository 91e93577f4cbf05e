use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Writes to a file that the kernel made: one that is not there is not made.
pub(crate) fn write(path: &Path, value: &str) -> Result<()> {
    try_write(path, value).map_err(|cause| Error::WriteFile {
        path: path.to_owned(),
        value: value.to_owned(),
        cause,
    })
}

pub(crate) fn try_write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

/// What is in a file; of one that is not there, or whose group has just gone, nothing.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if gone(&cause) => Ok(None),
        Err(cause) => Err(Error::File { what: "read", path: path.to_owned(), cause }),
    }
}

/// Whether the group was removed before or while it was used.
pub(crate) fn gone(cause: &io::Error) -> bool {
    let gone = [rustix::io::Errno::NODEV, rustix::io::Errno::NOENT].map(rustix::io::Errno::raw_os_error);
    cause.raw_os_error().is_some_and(|errno| gone.contains(&errno))
}

/// The groups right below a group.
pub(crate) fn children(dir: &Path) -> Result<Vec<PathBuf>> {
    some_children(dir, usize::MAX)
}

/// The same, up to `most` of them.
pub(crate) fn some_children(dir: &Path, most: usize) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::File { what: "read", path: dir.to_owned(), cause };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(cause) if gone(&cause) => return Ok(Vec::new()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut found = Vec::new();
    for entry in entries {
        if found.len() >= most {
            break;
        }
        let entry = entry.map_err(failed)?;
        // A link is never one of the kernel's.
        if entry.file_type().map_err(failed)?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// A group and all below it, each after the one that it is in.
pub(crate) fn tree(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![dir.to_owned()];
    let mut next = 0;
    while let Some(group) = found.get(next).cloned() {
        found.extend(children(&group)?);
        next += 1;
    }
    Ok(found)
}
