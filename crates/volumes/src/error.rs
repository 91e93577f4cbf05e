use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::kinds::HostPathType;
use crate::sub_path::SubPath;
use crate::{chown_once, ownership, writer};
use types::{PodUid, VolumeName};

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on a volume: what was tried, on which volume, and the cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// A file or directory of the state could not be used.
    #[error("cannot {what} {}: {errno}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// A volume's filesystem cannot be idmapped; found before anything was created.
    #[error("volume {volume:?} is on {filesystem} at {}, which cannot be idmapped: {cause}", at.display())]
    CannotIdmap {
        /// The volume.
        volume: VolumeName,
        /// The filesystem.
        filesystem: String,
        /// The mount that cannot be idmapped: the volume's own, or one below it.
        at: PathBuf,
        /// The kernel's error.
        cause: Errno,
    },
    /// A hostPath has another type.
    #[error("volume {volume:?}: hostPath {} is {found}, not {wanted}", path.display())]
    OtherType {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: PathBuf,
        /// The requested type.
        wanted: HostPathType,
        /// The actual type.
        found: &'static str,
    },
    /// A hostPath does not exist, and its type does not create it.
    #[error("volume {volume:?}: hostPath {} does not exist; it was to be {wanted}", path.display())]
    NoHostPath {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: PathBuf,
        /// The requested type.
        wanted: HostPathType,
    },
    /// A hostPath is not an absolute path.
    #[error("volume {volume:?}: hostPath {} {why}", path.display())]
    BadHostPath {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: PathBuf,
        /// Why it is invalid.
        why: &'static str,
    },
    /// A file of a volume cannot be read.
    #[error("volume {volume:?}: {} {why}", path.display())]
    BadFile {
        /// The volume.
        volume: VolumeName,
        /// The path of the file in the volume.
        path: PathBuf,
        /// Why it cannot be read.
        why: &'static str,
    },
    /// A subPath leads out of its volume.
    #[error("volume {volume:?}: subPath {} leads out of the volume", path.as_path().display())]
    Escapes {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: SubPath,
    },
    /// A subPath could not be opened or created.
    #[error("volume {volume:?}: subPath {}: {cause}", path.as_path().display())]
    SubPath {
        /// The volume.
        volume: VolumeName,
        /// The path.
        path: SubPath,
        /// The kernel's error.
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
    /// No driver handles a volume of this kind.
    #[error("no driver handles volume {volume:?} of pod {pod}")]
    NoDriver {
        /// The pod.
        pod: PodUid,
        /// The volume.
        volume: VolumeName,
    },
    /// The thread of an operation ended before its work did.
    #[error("an operation on volumes was interrupted")]
    Interrupted,
    /// A volume is used that was not set up.
    #[error("volume {volume:?} of pod {pod} is not set up")]
    NotSetUp {
        /// The pod.
        pod: PodUid,
        /// The volume.
        volume: VolumeName,
    },
    /// A volume was made for the pod with other IDs, and its files belong to them.
    #[error("volume {volume:?} of pod {pod} was made for {made_for}, not for {wanted}")]
    OtherUsers {
        /// The pod.
        pod: PodUid,
        /// The volume.
        volume: VolumeName,
        /// The IDs of its files: container and host ID and the length of each range.
        made_for: String,
        /// The IDs of the pod.
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
    /// A foreign mount is where ours is or was; it stays, and so does everything below it.
    #[error("{} has a mount on it that is not ours: {filesystem} from {from}", point.display())]
    ForeignMount {
        /// The mount point.
        point: PathBuf,
        /// Its filesystem.
        filesystem: String,
        /// Its source.
        from: String,
    },
    /// A mount of ours is in use.
    #[error("{} cannot be unmounted: a process uses it", point.display())]
    InUse {
        /// The mount point.
        point: PathBuf,
    },
    /// A pod's directory has volumes in it and no record of them.
    #[error("{} has volumes in it but no volumes.json: they are not ours to remove", dir.display())]
    NoRecord {
        /// The directory.
        dir: PathBuf,
    },
    /// A pod's directory has volumes in it that other drivers have made.
    #[error("{} has volumes of drivers that are not known here: {}", dir.display(), named(paths))]
    OfOthers {
        /// The directory.
        dir: PathBuf,
        /// What is not known, below it.
        paths: Vec<PathBuf>,
    },
    /// A record cannot be read.
    #[error("{} is damaged: {cause}", path.display())]
    DamagedRecord {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        cause: String,
    },
    /// A newer version of wardlet wrote a record.
    #[error("{} is of version {found}; this wardlet knows versions up to {known}", path.display())]
    NewerRecord {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest known version.
        known: u32,
    },
    /// An ID that the pod's user namespace does not have.
    #[error("pod {pod}: {cause}")]
    Unmapped {
        /// The pod.
        pod: PodUid,
        /// The ID.
        cause: ids::Unmapped,
    },
    /// A volume's files could not be written.
    #[error("volume {volume:?}: {cause}")]
    Writer {
        /// The volume.
        volume: VolumeName,
        /// The cause.
        cause: Box<writer::Error>,
    },
    /// The group of a volume's files could not be changed.
    #[error("volume {volume:?}: {cause}")]
    Ownership {
        /// The volume.
        volume: VolumeName,
        /// The cause.
        cause: Box<ownership::Error>,
    },
    /// The group of a file could not be changed.
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
        /// The cause.
        cause: Box<chown_once::Error>,
    },
    /// A tree that is given to the pod's block does not exist any more.
    #[error("volume {volume:?}: {} is missing, but {} says that it is given", tree.display(), journal.display())]
    GivenTreeMissing {
        /// The volume.
        volume: VolumeName,
        /// The tree.
        tree: PathBuf,
        /// Its journal.
        journal: PathBuf,
    },
    /// A record has an invalid map.
    #[error("volume {volume:?}: {cause}")]
    BadMap {
        /// The volume.
        volume: VolumeName,
        /// Why it is invalid.
        cause: ids::MappingError,
    },
    /// An image volume without layers.
    #[error("volume {volume:?}: the image has no layers")]
    NoLayers {
        /// The volume.
        volume: VolumeName,
    },
    /// Several independent failures.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

impl Error {
    /// What the user can do about it.
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
            Self::ForeignMount { .. } => {
                "unmount it if it is not needed; the removal then continues by itself"
            }
            Self::InUse { .. } => {
                "`fuser -vm` on it names the processes; the removal goes on when they are gone"
            }
            Self::NoRecord { .. } => "check its content, and remove it by hand if it is not needed",
            Self::OfOthers { .. } => {
                "give the node back to the kubelet, which removes them with their driver, or unmount and remove them by hand"
            }
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

    /// Joins the results of independent steps. The same error counts once.
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

    /// All errors as one; success if there are none.
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

/// The first of these paths, and how many others there are.
fn named(paths: &[PathBuf]) -> String {
    const NAMED: usize = 5;
    let first: Vec<String> = paths.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    match paths.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
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
            | Cause::Untrusted { ref path, .. }
            | Cause::Locked { ref path, .. } => {
                Self::DamagedRecord { path: path.clone(), cause: error.to_string() }
            }
        }
    }
}
