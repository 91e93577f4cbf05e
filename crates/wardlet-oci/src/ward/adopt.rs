//! What the caller has written into a container's layer before its runtime is called, as CRI-O does with directories for
//! mounts: it is the container's, and so its users'.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use bundle::IdLines;

use super::{Error, Result};

/// A change of owner takes these away.
const BEYOND_ITS_USER: u32 = 0o6000;

/// Gives all below `upper` to the host's IDs of its owners. Nobody else changes it: the container has not begun.
pub(super) fn adopt(upper: &Path, ids: &IdLines) -> Result<()> {
    let mut left = vec![upper.to_owned()];
    while let Some(dir) = left.pop() {
        for path in entries(&dir)? {
            let found = fs::symlink_metadata(&path).map_err(failed("look at", &path))?;
            give(&path, &found, ids)?;
            if found.is_dir() {
                left.push(path);
            }
        }
    }
    Ok(())
}

fn give(path: &Path, found: &Metadata, ids: &IdLines) -> Result<()> {
    let unmapped =
        || io::Error::other(format!("{}:{} has no place in the pod's maps", found.uid(), found.gid()));
    let owner = ids.host_user(found.uid()).zip(ids.host_group(found.gid()));
    let (uid, gid) = owner.ok_or_else(unmapped).map_err(failed("give to the pod", path))?;
    lchown(path, Some(uid), Some(gid)).map_err(failed("give to the pod", path))?;
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
