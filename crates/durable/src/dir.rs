//! Directories whose names survive power loss.

use std::fs::{DirBuilder, File, read_dir};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::error::{Error, Result};

/// Makes the names in a directory durable: what was created, renamed or removed there before the call stays so.
pub fn sync_dir(dir: &Path) -> Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir).and_then(|open| open.sync_all()).map_err(Error::io("sync", dir))
}

/// [`sync_dir`] for the directory that holds `path`.
pub fn sync_parent(path: &Path) -> Result<()> {
    sync_dir(path.parent().unwrap_or(path))
}

/// Creates a directory and those above it that are missing, all with `mode`, and makes their names durable.
///
/// A directory that holds something already costs one listing: it was made durable before anything was put there. One
/// that is empty may be left by a process that was killed before it could sync, and so may those above it that hold
/// nothing but the next one; their parents are synced again.
pub fn make_dirs(path: &Path, mode: u32) -> Result<()> {
    if has_entries(path, 1) {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(Error::io("make", path))?;
    for parent in path.ancestors().skip(1) {
        sync_dir(parent)?;
        if has_entries(parent, 2) {
            break;
        }
    }
    Ok(())
}

fn has_entries(dir: &Path, many: usize) -> bool {
    read_dir(dir).is_ok_and(|entries| entries.take(many).count() == many)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn directories_are_made_with_their_mode_and_made_again_without_harm() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        make_dirs(&path, 0o700).unwrap();
        make_dirs(&path, 0o700).unwrap();
        std::fs::write(path.join("file"), "").unwrap();
        make_dirs(&path, 0o755).unwrap();
        for made in [home.path().join("a"), path] {
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("a"), "").unwrap();
        let error = make_dirs(&home.path().join("a/b"), 0o700).unwrap_err();
        assert!(matches!(&error, Error::Io { action: "make", path, .. } if path.ends_with("a/b")), "{error}");
    }
}
