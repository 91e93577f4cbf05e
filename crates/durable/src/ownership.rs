//! Directories that no user can change but root and the one that this process runs as, nor the path to them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata, read_link, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf, absolute};

use rustix::process::geteuid;

use crate::error::{Error, Result};

const ROOT: u32 = 0;
const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// As many symbolic links as the kernel follows.
const LINKS: usize = 40;

/// Resolves a directory, and refuses one that another user owns or can write to, or can replace through a directory or
/// symbolic link on the way. Each directory that a link leads through is judged, too. Components that do not exist yet are
/// appended to the resolved path.
///
/// A directory with the sticky bit, such as /tmp, may be on the path, because no user can replace another user's entry
/// there; as the directory itself it is refused, because every user can create entries in it. An access control list that
/// allows another user to write shows as a group that can write.
pub fn check_ownership(dir: &Path) -> Result<PathBuf> {
    let walked = walk(dir)?;
    Ok(walked.missing.iter().fold(walked.existing, |path, name| path.join(name)))
}

/// [`check_ownership`] where this process runs as root. Another user has no more rights to lose than its own.
pub fn check_ownership_as_root(dir: &Path) -> Result<()> {
    if geteuid().is_root() { check_ownership(dir).map(drop) } else { Ok(()) }
}

/// Creates the directory with this mode and those above it that are missing, one by one, each judged before the next, and
/// returns its resolved path.
///
/// # Errors
/// As [`check_ownership`], and if one cannot be created.
pub fn make_owned_dirs(dir: &Path, mode: u32) -> Result<PathBuf> {
    loop {
        let walked = walk(dir)?;
        let Some(next) = walked.missing.front() else { return Ok(walked.existing) };
        let path = walked.existing.join(next);
        match DirBuilder::new().mode(mode).create(&path) {
            // Another process was faster: its directory is judged next.
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(Error::io("make", &path))?,
        }
    }
}

/// A resolved path.
struct Walked {
    existing: PathBuf,
    missing: VecDeque<OsString>,
}

/// Follows a path one component at a time. What was judged cannot be changed by another user afterwards.
fn walk(dir: &Path) -> Result<Walked> {
    let given = absolute(dir).map_err(Error::io("resolve", dir))?;
    let mut ahead: VecDeque<OsString> = names(&given);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    judge(&at, false)?;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        match symlink_metadata(&next) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                ahead.push_front(name);
                if ahead.iter().any(|name| name == "..") {
                    let reason = "does not exist, and the path goes back from it (\"..\")".to_owned();
                    return Err(Error::Untrusted { path: next, reason });
                }
                return Ok(Walked { existing: at, missing: ahead });
            }
            Err(cause) => return Err(Error::io("read", &next)(cause)),
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > LINKS {
                    return Err(Error::io("resolve", dir)(io::Error::other("too many symbolic links")));
                }
                weakness(&found, false).map_or(Ok(()), |reason| Err(untrusted(&next, reason)))?;
                let target = read_link(&next).map_err(Error::io("read", &next))?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                names(&target).into_iter().rev().for_each(|name| ahead.push_front(name));
            }
            Ok(found) if !found.is_dir() => {
                return Err(Error::Untrusted { path: next, reason: "is not a directory".to_owned() });
            }
            Ok(_) => {
                judge(&next, false)?;
                at = next;
            }
        }
    }
    // Until here each was judged as a directory on the way.
    judge(&at, true)?;
    Ok(Walked { existing: at, missing: ahead })
}

fn names(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    names.collect()
}

fn judge(path: &Path, is_last: bool) -> Result<()> {
    let found = symlink_metadata(path).map_err(Error::io("read", path))?;
    weakness(&found, is_last).map_or(Ok(()), |reason| Err(untrusted(path, reason)))
}

pub(crate) fn untrusted(path: &Path, reason: String) -> Error {
    Error::Untrusted { path: path.to_owned(), reason }
}

/// Why the file is not under our control, if it is not.
fn weakness(found: &Metadata, is_last: bool) -> Option<String> {
    if let Some(reason) = foreign_owner(found.uid()) {
        return Some(reason);
    }
    if found.is_symlink() || (found.mode() & STICKY != 0 && !is_last) {
        return None;
    }
    let mode = found.mode() & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        return Some(format!("can be written to by every user (mode {mode:04o})"));
    }
    (mode & GROUP_WRITE != 0).then(|| {
        format!("can be written to by group {} or an access control list (mode {mode:04o})", found.gid())
    })
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

    /// A directory that every user can write to, and one that only its owner can.
    fn open_and_closed(home: &Path) -> [PathBuf; 2] {
        [("open", 0o777), ("closed", 0o755)].map(|(name, mode)| {
            let dir = home.join(name);
            create_dir(&dir).unwrap();
            chmod(&dir, mode);
            dir
        })
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
        let [open, real] = open_and_closed(home.path());
        let link = open.join("link");
        symlink(&real, &link).unwrap();
        assert_refused(&link, &open, "every user");
        let back = real.join("back");
        symlink(&open, &back).unwrap();
        assert_refused(&back, &open, "every user");
        symlink(home.path().join("nowhere"), real.join("dangling")).unwrap();
        let resolved = check_ownership(&real.join("dangling/below")).unwrap();
        assert_eq!(resolved, home.path().join("nowhere/below"));
    }

    /// A link of ours that leads through a directory of another user: that user can move the rest of the way.
    #[test]
    fn each_directory_that_a_chain_of_links_leads_through_is_judged() {
        let home = tempfile::tempdir().unwrap();
        let [open, real] = open_and_closed(home.path());
        symlink(&real, open.join("theirs")).unwrap();
        let ours = home.path().join("ours");
        symlink(open.join("theirs"), &ours).unwrap();
        assert_refused(&ours, &open, "every user");
        let relative = real.join("relative");
        symlink("../open/../closed", &relative).unwrap();
        assert_refused(&relative, &open, "every user");
        let circle = real.join("circle");
        symlink("circle", &circle).unwrap();
        assert!(check_ownership(&circle).is_err());
    }

    #[test]
    fn directories_are_made_where_no_other_user_can_write() {
        let home = tempfile::tempdir().unwrap();
        let made = make_owned_dirs(&home.path().join("a/b/c"), 0o711).unwrap();
        assert_eq!(made, home.path().join("a/b/c"));
        for dir in ["a", "a/b", "a/b/c"] {
            let mode = home.path().join(dir).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o711, "{dir}");
        }
        make_owned_dirs(&made, 0o711).unwrap();
        let open = home.path().join("open");
        create_dir(&open).unwrap();
        chmod(&open, 0o777);
        symlink(home.path(), open.join("link")).unwrap();
        assert!(make_owned_dirs(&open.join("link/d"), 0o711).is_err());
        assert!(make_owned_dirs(&home.path().join("missing/../open/d"), 0o711).is_err());
        assert!(!home.path().join("d").exists() && !open.join("d").exists());
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
            // An access control list for another user has the same mode.
            assert_refused(&dir, &dir, "group 0");
        }
    }
}
