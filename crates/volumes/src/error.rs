use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::kinds::HostPathType;
use crate::sub_path::SubPath;
use crate::{chown_once, ownership, writer};
use types::{PodUid, VolumeName};

/// What this crate's calls return.
pub type Result<T> = std::result::Result<T, Error>;

/// What was tried, for which volume, and what stood in the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernel said no.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// A file or directory of ours could not be used.
    #[error("cannot {what} {}: {errno}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A volume's filesystem cannot show its files as the pod's; found before anything was made.
    #[error("volume {volume:?} is on {filesystem} at {}, which cannot be idmapped: {cause}", at.display())]
    CannotIdmap {
        /// The volume.
        volume: VolumeName,
        /// The filesystem.
        filesystem: String,
        /// The mount that cannot: the volume's own, or one below it.
        at: PathBuf,
        /// What the kernel said.
        cause: Errno,
    },
    /// A hostPath is there and is something else.
    #[error("volume {volume:?}: hostPath {} is {found}, not {wanted}", path.display())]
    OtherType {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: PathBuf,
        /// What it was to be.
        wanted: HostPathType,
        /// What it is.
        found: &'static str,
    },
    /// A hostPath is not there and is not to be made.
    #[error("volume {volume:?}: hostPath {} does not exist; it was to be {wanted}", path.display())]
    NoHostPath {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: PathBuf,
        /// What it was to be.
        wanted: HostPathType,
    },
    /// A hostPath that is no absolute path.
    #[error("volume {volume:?}: hostPath {} {why}", path.display())]
    BadHostPath {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A sub path leads out of its volume.
    #[error("volume {volume:?}: subPath {} leads out of the volume", path.as_path().display())]
    Escapes {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: SubPath,
    },
    /// A sub path could not be followed or made.
    #[error("volume {volume:?}: subPath {}: {cause}", path.as_path().display())]
    SubPath {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: SubPath,
        /// What the kernel said.
        cause: Box<kernel::Error>,
    },
    /// A mount names a volume that the pod does not have.
    #[error("pod {pod} has no volume {volume:?}")]
    NoSuchVolume {
        /// The pod.
        pod: PodUid,
        /// The name.
        volume: VolumeName,
    },
    /// Something is asked of a volume that was not set up.
    #[error("volume {volume:?} of pod {pod} is not set up")]
    NotSetUp {
        /// The pod.
        pod: PodUid,
        /// The volume.
        volume: VolumeName,
    },
    /// A volume was made for the pod with other IDs, and what is in it is theirs.
    #[error("volume {volume:?} of pod {pod} was made for {made_for}, not for {wanted}")]
    OtherUsers {
        /// The pod.
        pod: PodUid,
        /// The volume.
        volume: VolumeName,
        /// Whose it is: container and host ID and the length of each range.
        made_for: String,
        /// Whose it was to be.
        wanted: String,
    },
    /// Two volumes of a pod have one name.
    #[error("pod {pod} has two volumes named {volume:?}")]
    TwoOfAName {
        /// The pod.
        pod: PodUid,
        /// The name.
        volume: VolumeName,
    },
    /// Somebody else's mount lies where ours is or was; it is left alone, and so is all below it.
    #[error("{} has a mount on it that is not ours: {filesystem} from {from}", point.display())]
    ForeignMount {
        /// Where.
        point: PathBuf,
        /// Its filesystem.
        filesystem: String,
        /// What it was mounted from.
        from: String,
    },
    /// A mount of ours is in use.
    #[error("{} cannot be unmounted: somebody uses it", point.display())]
    InUse {
        /// Where.
        point: PathBuf,
    },
    /// A pod's directory has volumes in it and no record of them.
    #[error("{} has volumes in it but no volumes.json: they are not ours to remove", dir.display())]
    NoRecord {
        /// The directory.
        dir: PathBuf,
    },
    /// A record cannot be read.
    #[error("{} is damaged: {cause}", path.display())]
    DamagedRecord {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A newer wardlet wrote a record.
    #[error("{} is of version {found}; this wardlet knows versions up to {known}", path.display())]
    NewerRecord {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest we know.
        known: u32,
    },
    /// An ID that the pod's user namespace does not have.
    #[error("pod {pod}: {cause}")]
    Unmapped {
        /// The pod.
        pod: PodUid,
        /// Which.
        cause: ids::Unmapped,
    },
    /// A volume's files could not be written.
    #[error("volume {volume:?}: {cause}")]
    Writer {
        /// The volume.
        volume: VolumeName,
        /// Why not.
        cause: Box<writer::Error>,
    },
    /// A volume could not be given to its group.
    #[error("volume {volume:?}: {cause}")]
    Ownership {
        /// The volume.
        volume: VolumeName,
        /// Why not.
        cause: Box<ownership::Error>,
    },
    /// A file of a volume could not be given to the volume's group.
    #[error("volume {volume:?}: {first}")]
    NotGiven {
        /// The volume.
        volume: VolumeName,
        /// The first such file.
        first: ownership::Failure,
    },
    /// A tree could not be given to the pod's block, or taken back.
    #[error("volume {volume:?}: {cause}")]
    ChownOnce {
        /// The volume.
        volume: VolumeName,
        /// Why not.
        cause: Box<chown_once::Error>,
    },
    /// A tree that is given to the pod's block is not there to be taken back.
    #[error("volume {volume:?}: {} is missing, but {} says that it is given", tree.display(), journal.display())]
    GivenTreeMissing {
        /// The volume.
        volume: VolumeName,
        /// The tree.
        tree: PathBuf,
        /// The journal of it.
        journal: PathBuf,
    },
    /// A record names a map that cannot exist.
    #[error("volume {volume:?}: {cause}")]
    BadMap {
        /// The volume.
        volume: VolumeName,
        /// What is wrong with it.
        cause: ids::MappingError,
    },
    /// An image volume without a layer.
    #[error("volume {volume:?}: the image has no layers")]
    NoLayers {
        /// The volume.
        volume: VolumeName,
    },
    /// Several things went wrong, each on its own.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

impl Error {
    /// What the reader can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Kernel(error) => return error.hint().map(str::to_owned),
            Self::SubPath { cause, .. } => return cause.hint().map(str::to_owned),
            Self::Writer { cause, .. } => return cause.hint().map(str::to_owned),
            Self::ChownOnce { cause, .. } => return cause.hint().map(str::to_owned),
            Self::Ownership { cause, .. } => cause.hint(),
            Self::CannotIdmap { .. } => {
                "put the volume on ext4, xfs, btrfs or tmpfs, or choose sharedBlock or chownOnce for it: docs/how-to/volumes-without-idmap.md"
            }
            Self::OtherType { .. } => "change the volume's hostPath.type or its path",
            Self::NoHostPath { .. } => {
                "make it on the node, or use the type DirectoryOrCreate or FileOrCreate"
            }
            Self::Escapes { .. } => {
                "a symbolic link on the way is absolute or leads above the volume: make it relative, to a place in the volume"
            }
            Self::ForeignMount { .. } => "unmount it, if nobody needs it; the removal goes on by itself then",
            Self::InUse { .. } => {
                "`fuser -vm` on it names the processes; the removal goes on when they are gone"
            }
            Self::NoRecord { .. } => "look at what is there, and remove it by hand if nobody needs it",
            Self::DamagedRecord { .. } => {
                "unmount and remove what is in the pod's directory by hand, the file last"
            }
            Self::OtherUsers { .. } => "tear the pod's volumes down first, with what is in them",
            Self::GivenTreeMissing { .. } => {
                "mount it, and it is taken back; remove the journal if the tree is gone for good"
            }
            Self::NewerRecord { .. } => "use the newer wardlet",
            Self::Several(errors) => return errors.iter().find_map(Self::hint),
            _ => return None,
        };
        Some(text.to_owned())
    }

    pub(crate) fn io(what: &'static str, path: &Path, errno: Errno) -> Self {
        Self::Io { what, path: path.to_owned(), errno }
    }

    /// What several steps, none of which waits for another, came to. The same error counts once.
    pub(crate) fn all_of(outcomes: impl IntoIterator<Item = Result<()>>) -> Result<()> {
        let mut errors: Vec<Self> = vec![];
        for error in outcomes.into_iter().filter_map(Result::err) {
            let each = match error {
                Self::Several(each) => each,
                one => vec![one],
            };
            for error in each {
                if !errors.contains(&error) {
                    errors.push(error);
                }
            }
        }
        Self::all(errors)
    }

    /// All that went wrong, as one; nothing, if nothing did.
    pub(crate) fn all(mut errors: Vec<Self>) -> Result<()> {
        match (errors.len(), errors.pop()) {
            (_, None) => Ok(()),
            (1, Some(error)) => Err(error),
            (_, Some(last)) => {
                errors.push(last);
                Err(Self::Several(errors))
            }
        }
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => {
                Self::Io { what: action, path, errno: Errno::from_io_error(&cause).unwrap_or(Errno::IO) }
            }
            Cause::Damaged { path, cause } => Self::DamagedRecord { path, cause: cause.to_string() },
            Cause::Version { path, found, known } if found > u64::from(known.newest) => {
                Self::NewerRecord { path, found, known: known.newest }
            }
            Cause::Version { ref path, .. }
            | Cause::TooLarge { ref path, .. }
            | Cause::Locked { ref path, .. } => {
                Self::DamagedRecord { path: path.clone(), cause: error.to_string() }
            }
        }
    }
}
