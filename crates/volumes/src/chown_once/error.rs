use std::path::PathBuf;

use ids::{HostSpan, IdKind};
use rustix::io::Errno;

/// Why a tree was not given or taken back. Until the inventory is complete nothing has been changed;
/// after that, the same call goes on where it ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The pod has no user namespace.
    #[error("{} cannot be given to a pod without a user namespace", tree.display())]
    NoMap {
        /// The tree.
        tree: PathBuf,
    },
    /// An ID is on both sides of the map.
    #[error(
        "{kind}s {both} are IDs of the container and of its block: it would be unknown whether a file was shifted"
    )]
    Overlap {
        /// Which of the two maps.
        kind: IdKind,
        /// The IDs.
        both: HostSpan,
    },
    /// A file's owner is none of the IDs that can be shifted.
    #[error("{} belongs to {kind} {id}, which is outside the {side} IDs", path.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// User or group.
        kind: IdKind,
        /// Its number.
        id: u32,
        /// The side that it should be of.
        side: &'static str,
    },
    /// A file's capabilities cannot be shifted.
    #[error("{} has capabilities that cannot be shifted: {why}", path.display())]
    Capability {
        /// The file.
        path: PathBuf,
        /// Why they cannot be shifted.
        why: String,
    },
    /// A file has a name outside the tree too.
    #[error("{} has {links} names and only {seen} of them in the tree", path.display())]
    LinkedOutside {
        /// The file, by one of its names.
        path: PathBuf,
        /// How many names it has.
        links: u32,
        /// How many were found.
        seen: u32,
    },
    /// An immutable or append-only file.
    #[error("{} is immutable or append-only", path.display())]
    Fixed {
        /// The file.
        path: PathBuf,
    },
    /// A mount in the tree.
    #[error("{} is a mount in the tree", path.display())]
    MountBelow {
        /// The mount point.
        path: PathBuf,
    },
    /// Another process keeps creating files that are not shifted.
    #[error("files kept appearing in {} while its owners were shifted, the last one at {}", tree.display(), path.display())]
    StillChanging {
        /// One of the files.
        path: PathBuf,
        /// The tree.
        tree: PathBuf,
    },
    /// Another process shifts the tree.
    #[error("{} is being shifted by another process", tree.display())]
    Busy {
        /// The tree.
        tree: PathBuf,
    },
    /// The tree is given to another block.
    #[error("{} is given to other IDs, as {} says", tree.display(), journal.display())]
    GivenToOthers {
        /// The tree.
        tree: PathBuf,
        /// Its journal.
        journal: PathBuf,
    },
    /// The journal is of another tree.
    #[error("{} is the journal of another tree than {}", journal.display(), tree.display())]
    OtherTree {
        /// The tree.
        tree: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
    /// The tree has owners of the block, and no journal.
    #[error("{} belongs to {kind} {id} of the block, and there is no journal {}", tree.display(), journal.display())]
    NoJournal {
        /// The tree.
        tree: PathBuf,
        /// The expected path of its journal.
        journal: PathBuf,
        /// User or group.
        kind: IdKind,
        /// The owner.
        id: u32,
    },
    /// The journal lies in the tree.
    #[error("the journal {} lies in the tree {} itself", journal.display(), tree.display())]
    JournalInside {
        /// The tree.
        tree: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
    /// The journal is damaged.
    #[error("the journal {} is damaged: {why}", journal.display())]
    Damaged {
        /// The journal.
        journal: PathBuf,
        /// Why it is invalid.
        why: &'static str,
    },
    /// A system call failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    Step {
        /// The operation that failed.
        step: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoMap { .. } => "set hostUsers: false, or mount the volume without chownOnce",
            Self::Overlap { .. } => "lease a block that begins above the last ID of the container",
            Self::Outside { .. } => {
                "give the file to an ID of the container, or choose another volume policy"
            }
            Self::Capability { .. } => "set the file's capabilities anew, or remove them",
            Self::LinkedOutside { .. } => {
                "copy the file instead of linking it: its other name would be given away too"
            }
            Self::Fixed { .. } => "chattr -i -a the file",
            Self::MountBelow { .. } => "unmount it, or mount it as a volume of its own",
            Self::StillChanging { .. } => "stop what writes to the tree on the host, then try again",
            Self::Busy { .. } => "wait for it; it goes on by itself after a crash",
            Self::GivenToOthers { .. } => "take the tree back first",
            Self::OtherTree { .. } => "restore the tree that the journal is of, or take that journal away",
            Self::NoJournal { .. } => "restore the journal, or chown the tree by hand",
            Self::JournalInside { .. } => "keep journals in the state directory",
            Self::Damaged { .. } => {
                "restore it from a copy; without it, special bits of half-shifted files are lost"
            }
            Self::Step { .. } => return None,
        })
    }
}
