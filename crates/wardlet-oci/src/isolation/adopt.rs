//! Changes the owner of files that the caller wrote into a container's upper directory before it called the runtime, as
//! CRI-O does with mount points.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use ids::IdMappings;

use super::{Error, Result};

/// The set-user-ID and set-group-ID bits, which chown(2) clears.
const BEYOND_ITS_USER: u32 = 0o6000;

/// Changes the owner of all files below `upper` from IDs of the container to the host IDs that they map to. No other
/// process changes the files meanwhile, since the container has not started. It is an error if an owner is not in the
/// ID mappings.
pub(super) fn adopt(upper: &Path, ids: &IdMappings) -> Result<()> {
    let mut left = vec![upper.to_owned()];
    while let Some(dir) = left.pop() {
        for path in entries(&dir)? {
            let found = fs::symlink_metadata(&path).map_err(failed("stat", &path))?;
            give(&path, &found, ids)?;
            if found.is_dir() {
                left.push(path);
            }
        }
    }
    Ok(())
}

fn give(path: &Path, found: &Metadata, ids: &IdMappings) -> Result<()> {
    let unmapped =
        || io::Error::other(format!("owner {}:{} is not in the pod's ID mappings", found.uid(), found.gid()));
    let owner = ids.host_user(found.uid()).zip(ids.host_group(found.gid()));
    let (uid, gid) = owner.ok_or_else(unmapped).map_err(failed("change the owner of", path))?;
    lchown(path, Some(uid), Some(gid)).map_err(failed("change the owner of", path))?;
    let mode = found.permissions().mode();
    if found.is_file() && mode & BEYOND_ITS_USER != 0 {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
            .map_err(failed("set the mode of", path))?;
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(failed("read", dir))?;
    entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()
        .map_err(failed("read", dir))
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |cause| Error::File { what, path: path.to_owned(), cause }
}
