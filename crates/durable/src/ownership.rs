//! Whether a user other than root and the one that this process runs as can change what a path leads to.

use std::fs::{Metadata, canonicalize, symlink_metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, absolute};

use rustix::process::geteuid;

use crate::error::{Error, Result};

const ROOT: u32 = 0;
const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Refuses a directory that another user owns or can write to, or can replace through a directory or symbolic link on
/// the path to it. A directory that does not exist yet is judged by those above it.
///
/// A directory with the sticky bit, such as /tmp, may be on the path, because no user can replace another user's entry
/// there; as the directory itself it is refused, because every user can create entries in it.
pub fn check_ownership(dir: &Path) -> Result<()> {
    let given = absolute(dir).map_err(Error::io("resolve", dir))?;
    let Some(existing) = given.ancestors().find(|path| symlink_metadata(path).is_ok()) else { return Ok(()) };
    let resolved = canonicalize(existing).map_err(Error::io("resolve", existing))?;
    for path in [existing, &resolved] {
        for (distance, path) in path.ancestors().enumerate() {
            let is_last = distance == 0 && existing == given;
            let found = symlink_metadata(path).map_err(Error::io("read", path))?;
            if let Some(reason) = weakness(&found, is_last) {
                return Err(Error::Untrusted { path: path.to_owned(), reason });
            }
        }
    }
    Ok(())
}

/// Why the file is not under our control, if it is not.
fn weakness(found: &Metadata, is_last: bool) -> Option<String> {
    if let Some(reason) = foreign_owner(found.uid()) {
        return Some(reason);
    }
    if found.is_symlink() || (found.mode() & STICKY != 0 && !is_last) {
        return None;
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Some(format!("can be written to by every user (mode {:04o})", found.mode() & 0o7777));
    }
    (found.mode() & GROUP_WRITE != 0 && found.gid() != ROOT)
        .then(|| format!("can be written to by group {} (mode {:04o})", found.gid(), found.mode() & 0o7777))
}

/// Why a file of this user is not under our control, if it is not.
pub(crate) fn foreign_owner(uid: u32) -> Option<String> {
    let own = geteuid().as_raw();
    (uid != ROOT && uid != own).then(|| format!("belongs to user {uid}, and this process runs as user {own}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn assert_refused(dir: &Path, culprit: &Path, expected: &str) {
        let error = check_ownership(dir).unwrap_err();
        let Error::Untrusted { path, reason } = &error else { panic!("{error}") };
        assert_eq!(path, culprit);
        assert!(reason.contains(expected), "{reason}");
        assert!(error.hint().is_some());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused_also_on_the_path() {
        let home = tempfile::tempdir().unwrap();
        let (above, dir) = (home.path().join("above"), home.path().join("above/dir"));
        create_dir(&above).unwrap();
        create_dir(&dir).unwrap();
        chmod(&above, 0o755);
        chmod(&dir, 0o755);
        check_ownership(&dir).unwrap();
        check_ownership(&dir.join("not/made/yet")).unwrap();
        chmod(&dir, 0o1777);
        assert_refused(&dir, &dir, "every user (mode 1777)");
        check_ownership(&dir.join("mine")).unwrap();
        chmod(&dir, 0o777);
        assert_refused(&dir.join("mine"), &dir, "every user (mode 0777)");
        chmod(&dir, 0o755);
        chmod(&above, 0o757);
        assert_refused(&dir, &above, "every user");
    }

    #[test]
    fn a_link_is_judged_by_both_ends() {
        let home = tempfile::tempdir().unwrap();
        let (open, real) = (home.path().join("open"), home.path().join("real"));
        create_dir(&open).unwrap();
        create_dir(&real).unwrap();
        chmod(&open, 0o777);
        chmod(&real, 0o755);
        let link = open.join("link");
        symlink(&real, &link).unwrap();
        assert_refused(&link, &open, "every user");
        let back = real.join("back");
        symlink(&open, &back).unwrap();
        assert_refused(&back, &open, "every user");
        symlink(home.path().join("nowhere"), real.join("dangling")).unwrap();
        assert!(check_ownership(&real.join("dangling")).is_err());
    }

    /// Needs root to give a file away; an ordinary user proves the first assertion alone.
    #[test]
    fn a_directory_of_another_user_is_refused() {
        assert!(foreign_owner(ROOT).is_none());
        assert!(foreign_owner(geteuid().as_raw() + 1).is_some());
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("theirs");
        create_dir(&dir).unwrap();
        if chown(&dir, Some(12345), None).is_ok() {
            assert_refused(&dir, &dir, "belongs to user 12345");
            assert_refused(&dir.join("below"), &dir, "belongs to user 12345");
            chown(&dir, Some(ROOT), Some(12345)).unwrap();
            chmod(&dir, 0o775);
            assert_refused(&dir, &dir, "group 12345");
            chown(&dir, None, Some(ROOT)).unwrap();
            check_ownership(&dir).unwrap();
        }
    }
}
