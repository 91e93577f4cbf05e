//! Files that are whole or not there, whenever the power goes.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::LedgerError;

/// Replaces the file as a whole: the old content or the new, never a mixture.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), LedgerError> {
    let fresh = beside(path, ".new");
    let write = || -> std::io::Result<()> {
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(FOR_ITS_OWNER).open(&fresh)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(|e| LedgerError::io("cannot write", &fresh, e))?;
    rename(&fresh, path)
}

/// What a file of the ledger has: a user who can open one can lock it, also to read only, and stop all leases.
const FOR_ITS_OWNER: u32 = 0o600;

/// Makes an empty file that only its owner can open, for SQLite to fill: it makes its other files like this one.
pub(crate) fn make_private(path: &Path) -> Result<(), LedgerError> {
    let made = OpenOptions::new().create_new(true).write(true).mode(FOR_ITS_OWNER).open(path);
    made.map(drop).map_err(|e| LedgerError::io("cannot make", path, e))
}

/// Takes a file from all users but its owner, if there is one. It is not opened: to close it would end the locks that
/// SQLite has on it.
pub(crate) fn restrict(path: &Path) -> Result<(), LedgerError> {
    let restricted = std::fs::symlink_metadata(path).and_then(|found| {
        let is_open = found.is_file() && found.permissions().mode() & 0o7777 & !FOR_ITS_OWNER != 0;
        if is_open {
            std::fs::set_permissions(path, PermissionsExt::from_mode(FOR_ITS_OWNER))
        } else {
            Ok(())
        }
    });
    match restricted {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(LedgerError::io("cannot take from other users", path, e))
        }
        _ => Ok(()),
    }
}

/// Renames and makes the new name durable.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), LedgerError> {
    std::fs::rename(from, to).map_err(|e| LedgerError::io("cannot rename to", to, e))?;
    sync_dir(to.parent().unwrap_or(Path::new(".")))
}

/// Makes what is in a file durable, if there is one.
pub(crate) fn sync_file(path: &Path) -> Result<(), LedgerError> {
    match File::open(path).and_then(|file| file.sync_data()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LedgerError::io("cannot sync", path, e)),
        _ => Ok(()),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), LedgerError> {
    let synced = File::open(dir).and_then(|d| d.sync_all());
    synced.map_err(|e| LedgerError::io("cannot sync", dir, e))
}

/// Makes a directory for root's eyes only, and makes its name durable. One that is there but still empty
/// may have been made by a process that was killed before it could.
pub(crate) fn make_dir(dir: &Path) -> Result<(), LedgerError> {
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Ok(());
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|e| LedgerError::io("cannot make directory", dir, e))?;
    let above = dir.ancestors().skip(1);
    above.map(|a| if a.as_os_str().is_empty() { Path::new(".") } else { a }).try_for_each(sync_dir)
}

/// The path with `suffix` behind its last name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
