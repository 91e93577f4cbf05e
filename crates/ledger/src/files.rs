//! Files of the ledger that SQLite writes: it renames none of them, so that they are made, closed to other users and
//! synced here.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::LedgerError;

/// What a file of the ledger has: a user who can open one can lock it, also to read only, and stop all leases.
const FOR_ITS_OWNER: u32 = 0o600;

/// Makes an empty file that only its owner can open, for SQLite to fill: it makes its other files like this one.
pub(crate) fn make_private(path: &Path) -> Result<(), LedgerError> {
    let made = OpenOptions::new().create_new(true).write(true).mode(FOR_ITS_OWNER).open(path);
    made.map(drop).map_err(|e| LedgerError::io("make", path, e))
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
            Err(LedgerError::io("take from other users", path, e))
        }
        _ => Ok(()),
    }
}

/// Makes what is in a file durable, if there is one.
pub(crate) fn sync_file(path: &Path) -> Result<(), LedgerError> {
    match File::open(path).and_then(|file| file.sync_data()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LedgerError::io("sync", path, e)),
        _ => Ok(()),
    }
}

/// The path with `suffix` behind its last name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
