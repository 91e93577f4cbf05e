//! Files of a tree that no ID of a pod owns: through an idmapped mount they belong to the overflow ID, and the pod can neither
//! change nor give them away.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use ids::{ContainerId, IdKind, UserNamespace};
use kernel::{Dir, Kind, LastLink, Owner, Stat, Within};

/// How many files are looked at, the uppermost first: enough to notice a tree of other owners, and never long.
const LOOKED_AT: usize = 256;

/// Files with owners outside of a map, among those that were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) files: usize,
    pub(crate) looked_at: usize,
    /// One of them.
    pub(crate) first: PathBuf,
    /// The owner of that one.
    pub(crate) owner: Owner,
}

/// Looks at the uppermost files of a tree, on its own mount only; `None` if the map has all their owners. What cannot be
/// looked at is left out.
pub(crate) fn outside(tree: &Dir, ids: &UserNamespace) -> Option<Outside> {
    let has = |kind, id: u32| {
        ContainerId::try_from(u64::from(id)).is_ok_and(|id| ids.to_host(kind, Some(id)).is_ok())
    };
    let top = tree.stat().ok()?;
    let mut found: Option<Outside> = None;
    let mut looked_at = 0;
    let mut judge = |path: &Path, stat: &Stat| {
        looked_at += 1;
        if !(has(IdKind::Uid, stat.uid) && has(IdKind::Gid, stat.gid)) {
            let new = || Outside { files: 0, looked_at: 0, first: path.to_owned(), owner: stat.owner() };
            found.get_or_insert_with(new).files += 1;
        }
        looked_at < LOOKED_AT
    };
    if judge(tree.path(), &top) {
        let mut ahead = VecDeque::from([(tree.path().to_owned(), Dir::at(tree.as_fd(), tree.path()).ok())]);
        'tree: while let Some((path, dir)) = ahead.pop_front() {
            let Some(dir) = dir else { continue };
            let listed = fs::read_dir(format!("/proc/thread-self/fd/{}", dir.as_fd().as_raw_fd()));
            for entry in listed.into_iter().flatten().flatten() {
                let (name, below) = (PathBuf::from(entry.file_name()), path.join(entry.file_name()));
                let Ok(node) = dir.node(&name, Within::NoLinks, LastLink::Keep) else { continue };
                let Some(stat) = node.stat().ok().filter(|stat| stat.mount_id == top.mount_id) else {
                    continue;
                };
                if !judge(&below, &stat) {
                    break 'tree;
                }
                // No more directories are held open than files are looked at.
                if stat.kind == Kind::Directory && ahead.len() < LOOKED_AT {
                    ahead.push_back((below, node.open_dir().ok()));
                }
            }
        }
    }
    found.map(|found| Outside { looked_at, ..found })
}
