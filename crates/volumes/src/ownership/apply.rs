use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ids::Unmapped;
use kernel::{Dir, Owner};
use rustix::io::Errno;

use super::change::{Change, capability, change};
use super::fs_group::{FsGroup, FsGroupChangePolicy, Root};
use super::owners::Owners;
use super::walk::{Facts, Held, Step, walk};

/// How many failures are named; the others are counted.
const NAMED: usize = 20;
/// After how many files the progress is reported.
const TELL_AFTER: u64 = 256;

/// Why the group of a volume's files was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The group is not mapped.
    #[error("fsGroup of {}: {unmapped}", dir.display())]
    Unmapped {
        /// The volume's directory.
        dir: PathBuf,
        /// The group.
        unmapped: Unmapped,
    },
    /// The volume's own directory cannot be read.
    #[error("cannot look at {}: {errno}", dir.display())]
    Root {
        /// The volume's directory.
        dir: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unmapped { .. } => "choose an fsGroup within the pod's IDs, or lease a longer block",
            Self::Root { .. } => "the volume's directory must stay there while the volume is set up",
        }
    }
}

/// A change of the group of a volume's files.
#[derive(Debug, Clone, Copy)]
pub struct GroupChange<'a> {
    /// Whether container IDs or host IDs are written.
    pub owners: &'a Owners,
    /// The group.
    pub fs_group: FsGroup,
    /// The policy.
    pub policy: FsGroupChangePolicy,
}

/// The progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Files checked so far.
    pub seen: u64,
    /// The file that was checked last, below the volume.
    pub path: &'a Path,
}

/// The result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Files checked; none if the root showed that all was done.
    pub seen: u64,
    /// Files that were changed.
    pub changed: u64,
    /// Mounts below the volume, which are left alone.
    pub mounts: Vec<PathBuf>,
    /// Files that could not be changed.
    pub failed: u64,
    /// The first of them, by name.
    pub failures: Vec<Failure>,
}

/// A file that could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot give {} to the fsGroup: {errno}", path.display())]
pub struct Failure {
    /// The file, below the volume.
    pub path: PathBuf,
    /// The kernel's error.
    pub errno: Errno,
}

/// Changes the group of every file of the volume, the volume's root last. A link itself is changed, never followed; a
/// mount below is not entered. Files that cannot be changed do not stop it.
pub fn apply_fs_group(
    volume: &Dir,
    what: GroupChange<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Applied, Error> {
    let dir = || volume.path().to_owned();
    let group = what.fs_group;
    let gid = what.owners.group(group.group).map_err(|unmapped| Error::Unmapped { dir: dir(), unmapped })?;
    let root = Facts::of(volume.as_fd()).map_err(|errno| Error::Root { dir: dir(), errno })?;
    let mut applied = Applied::default();
    let root = Root { kind: root.kind, mode: root.mode, gid: root.gid, wanted_gid: gid };
    if what.policy == FsGroupChangePolicy::OnRootMismatch && group.is_on(&root) {
        return Ok(applied);
    }
    let visit = |step| -> Result<(), std::convert::Infallible> {
        match step {
            Step::Mount(path) => applied.mounts.push(path),
            Step::Failed(path, errno) => applied.fail(path, errno),
            Step::File(held) => {
                applied.take(give(&held, group, gid), &held.path);
                if applied.seen.is_multiple_of(TELL_AFTER) {
                    progress(Progress { seen: applied.seen, path: &held.path });
                }
            }
        }
        Ok(())
    };
    match walk(volume.as_fd(), visit) {
        Ok(()) => Ok(applied),
        Err(never) => match never {},
    }
}

fn give(held: &Held, group: FsGroup, gid: u32) -> Result<bool, Errno> {
    let facts = &held.facts;
    let to = Change {
        owner: Owner { uid: facts.uid, gid },
        mode: facts.mode.with(group.adds(facts.kind)),
        capability: if facts.gid == gid { None } else { capability(held)? },
    };
    change(held, &to)
}

impl Applied {
    fn take(&mut self, outcome: Result<bool, Errno>, path: &Path) {
        self.seen += 1;
        match outcome {
            Ok(true) => self.changed += 1,
            Ok(false) => {}
            Err(errno) => self.fail(path.to_owned(), errno),
        }
    }

    fn fail(&mut self, path: PathBuf, errno: Errno) {
        self.failed += 1;
        if self.failures.len() < NAMED {
            self.failures.push(Failure { path, errno });
        }
    }
}
