//! Whose the files on a mount are: a walk over some of them, the uppermost first.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use kernel::{Dir, Kind, LastLink, Node, Stat, Within};

/// What bounds a walk.
pub(super) struct Bounds<'a> {
    /// How many entries are looked at.
    pub(super) entries: usize,
    /// The mount that is not left.
    pub(super) mount: u64,
    /// Where the container has mounts, by paths from its root: not entered, for whatever answers there may be
    /// the pod's own, and never answer.
    pub(super) points: &'a BTreeSet<PathBuf>,
}

/// How far a walk came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Walked {
    pub(super) entries: usize,
    /// There is more.
    pub(super) in_part: bool,
}

/// Shows `judge` what is below `top`, a directory whose path in the container is `path`. No link is followed.
/// What goes away meanwhile is left out.
pub(super) fn walk(
    top: &Node,
    path: &Path,
    bounds: &Bounds<'_>,
    mut judge: impl FnMut(&Path, &Stat),
) -> Walked {
    let mut walked = Walked::default();
    let mut ahead = VecDeque::from([(path.to_owned(), top.open_dir().ok())]);
    while let Some((path, dir)) = ahead.pop_front() {
        let Some(dir) = dir else { continue };
        for name in names(&dir) {
            if walked.entries >= bounds.entries {
                walked.in_part = true;
                return walked;
            }
            let below = path.join(&name);
            if bounds.points.contains(&below) {
                continue;
            }
            let Ok(node) = dir.node(&name, Within::NoLinks, LastLink::Keep) else { continue };
            let Some(stat) = node.stat().ok().filter(|stat| stat.mount_id == bounds.mount) else { continue };
            walked.entries += 1;
            judge(&below, &stat);
            // No more directories are held open than there are entries still to be looked at.
            if stat.kind != Kind::Directory {
                continue;
            }
            if ahead.len() + walked.entries < bounds.entries {
                ahead.push_back((below, node.open_dir().ok()));
            } else {
                walked.in_part = true;
            }
        }
    }
    walked
}

/// Read one after the other, not all at once: a directory may have millions.
fn names(dir: &Dir) -> impl Iterator<Item = PathBuf> {
    let listed = fs::read_dir(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()));
    listed.into_iter().flatten().flatten().map(|entry| PathBuf::from(entry.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(dir: &Path, entries: usize, points: &BTreeSet<PathBuf>) -> (Vec<PathBuf>, Walked) {
        let top = Node::open(dir).unwrap();
        let bounds = Bounds { entries, mount: top.stat().unwrap().mount_id, points };
        let mut seen = Vec::new();
        let walked = walk(&top, Path::new("/"), &bounds, |path, _| seen.push(path.to_owned()));
        seen.sort();
        (seen, walked)
    }

    #[test]
    fn a_walk_sees_everything_once_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("out")).unwrap();
        let (all, walked) = seen(dir.path(), 100, &BTreeSet::new());
        assert_eq!(all, ["/a", "/a/b", "/a/b/file", "/out"].map(PathBuf::from));
        assert_eq!(walked, Walked { entries: 4, in_part: false });
        let (some, walked) = seen(dir.path(), 2, &BTreeSet::new());
        assert_eq!((some.len(), walked.in_part), (2, true));
        let (less, _) = seen(dir.path(), 100, &BTreeSet::from([PathBuf::from("/a/b")]));
        assert_eq!(less, ["/a", "/out"].map(PathBuf::from));
    }
}
