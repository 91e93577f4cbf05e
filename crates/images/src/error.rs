use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ids::IdKind;

use crate::digest::Digest;
use crate::fault::Fault;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation: what was tried, on which object, and the cause.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A filesystem operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The kernel's error.
        source: Arc<io::Error>,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}", path.display())]
    DiskFull {
        /// The file that was written.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{0}")]
    Kernel(#[from] kernel::Error),
    /// Another process held the store's lock too long.
    #[error("the image store has been locked for {}s: {}", waited.as_secs(), path.display())]
    Stuck {
        /// The lock file.
        path: PathBuf,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A newer version of wardlet wrote this store.
    #[error("{} is of version {found}; this wardlet knows version {known}", path.display())]
    TooNew {
        /// The store.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The newest known version.
        known: u32,
    },
    /// A record of the store cannot be parsed.
    #[error("{} cannot be read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// An invalid digest.
    #[error("{text:?} is not a digest")]
    Digest {
        /// The value that was given.
        text: String,
    },
    /// An invalid image name.
    #[error("{text:?} is not a valid image name: {why}")]
    Reference {
        /// The name.
        text: String,
        /// Why it is invalid.
        why: &'static str,
    },
    /// The import is not an image.
    #[error("{} is not an image: {why}", path.display())]
    NotAnImage {
        /// The file or directory.
        path: PathBuf,
        /// What is missing or invalid.
        why: String,
    },
    /// A manifest, index or configuration cannot be parsed.
    #[error("cannot parse {what}: {why}")]
    Document {
        /// Its name.
        what: String,
        /// Why it is invalid.
        why: String,
    },
    /// Content does not have its digest.
    #[error("{what} has the digest {found}, not {expected}")]
    WrongDigest {
        /// The content.
        what: String,
        /// The expected digest.
        expected: Digest,
        /// The actual digest.
        found: Digest,
    },
    /// Content does not have its size.
    #[error("{what} has {found} bytes, not {expected}")]
    WrongSize {
        /// The content.
        what: String,
        /// The expected size.
        expected: u64,
        /// The actual size.
        found: u64,
    },
    /// An entry of a layer, or of an archive, was refused.
    #[error("{layer}: entry {entry:?}: {fault}")]
    Entry {
        /// The layer or archive.
        layer: String,
        /// The entry's name.
        entry: String,
        /// The cause.
        fault: Fault,
    },
    /// A layer was refused as a whole.
    #[error("{layer}: {fault}")]
    Layer {
        /// The layer or archive.
        layer: String,
        /// The cause.
        fault: Fault,
    },
    /// The image has no platform for this machine.
    #[error("{image} is for {}, not for {wanted}", offered.join(", "))]
    OtherPlatform {
        /// The image.
        image: String,
        /// The platform of this machine.
        wanted: String,
        /// The platforms of the image.
        offered: Vec<String>,
    },
    /// A registry could not be reached, or answered with an error.
    #[error("{endpoint}: {what}: {why}")]
    Registry {
        /// Scheme, host and port.
        endpoint: String,
        /// The requested object.
        what: String,
        /// The response.
        why: String,
    },
    /// A registry requires other credentials, or any.
    #[error("{endpoint}: {what}: not authorized: {why}")]
    Unauthorized {
        /// Scheme, host and port.
        endpoint: String,
        /// The requested object.
        what: String,
        /// Its message.
        why: String,
    },
    /// The registry does not have the object.
    #[error("{endpoint} does not have {what}")]
    NotThere {
        /// Scheme, host and port.
        endpoint: String,
        /// The requested object.
        what: String,
    },
    /// A certificate file is invalid.
    #[error("certificates of {}: {why}", path.display())]
    Certificates {
        /// The file, or the system's directory.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// The store has no such image.
    #[error("there is no image {name}")]
    Unknown {
        /// The requested value.
        name: String,
    },
    /// A short ID stands for several images.
    #[error("{name} may be {}", candidates.join(" or "))]
    Ambiguous {
        /// The requested value.
        name: String,
        /// The candidates.
        candidates: Vec<String>,
    },
    /// A container runs from the image.
    #[error("{image} is in use by {by}")]
    InUse {
        /// The image.
        image: String,
        /// The holder.
        by: String,
    },
    /// An invalid name for a holder of an image.
    #[error(
        "{text:?} cannot name a user of an image: letters, digits, dot, dash and underscore can, 1 to 200"
    )]
    Holder {
        /// The value that was given.
        text: String,
    },
    /// A file of the image belongs to an ID that the mapping does not have.
    #[error("/{file} in image {image} belongs to {kind} {id}, and only {length} are mapped", file = file.trim_start_matches('/'))]
    BeyondMapping {
        /// The image.
        image: String,
        /// The file.
        file: String,
        /// User or group.
        kind: IdKind,
        /// Its owner inside.
        id: u32,
        /// How many IDs are mapped.
        length: u64,
    },
    /// The caller has cancelled the operation.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Kernel(error) => return error.hint().map(Into::into),
            Self::Entry { fault, .. } | Self::Layer { fault, .. } => return fault.hint().map(Into::into),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run as root: layers are unpacked with the owners that their files have".into()
            }
            Self::DiskFull { .. } => "`wardlet image gc` removes what no image and no container needs".into(),
            Self::Stuck { .. } => "another wardlet is changing the store; the lock goes with it".into(),
            Self::TooNew { .. } => "use the newer wardlet, or another --state-dir".into(),
            Self::Record { .. } => "remove the image and pull or import it again".into(),
            Self::NotAnImage { .. } => {
                "an OCI layout (a directory or archive) has index.json, a docker archive manifest.json".into()
            }
            Self::WrongDigest { .. } | Self::WrongSize { .. } => {
                "nothing of it was kept; it was damaged on the way, or is not what it says".into()
            }
            Self::OtherPlatform { .. } => "ask for an image that is built for this machine".into(),
            Self::Unauthorized { .. } => "see `wardlet image pull --help` for how to give credentials".into(),
            Self::Registry { why, .. } if why.contains("certificate") || why.contains("CaUsed") => {
                "name the registry's own CA as `ca` in registries.yaml".into()
            }
            Self::Unknown { .. } => "`wardlet image list` shows what is there".into(),
            Self::Ambiguous { .. } => "give more digits, or a name".into(),
            Self::InUse { .. } => "stop what uses it first".into(),
            Self::BeyondMapping { id, .. } => format!(
                "give the pod more IDs: userNamespaces.idsPerPod must be above {id}, in multiples of 65536"
            ),
            _ => return None,
        })
    }

    /// Whether a retry may help: the connection failed, not the request.
    pub(crate) fn is_of_the_network(&self) -> bool {
        matches!(self, Self::Registry { .. })
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            if source.kind() == io::ErrorKind::StorageFull {
                return Self::DiskFull { path };
            }
            Self::Io { what, path, source: Arc::new(source) }
        }
    }

    pub(crate) fn errno(what: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self {
        let io = Self::io(what, path);
        move |errno| io(errno.into())
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => Self::io(action, &path)(cause),
            Cause::Locked { path, waited, .. } => Self::Stuck { path, waited },
            Cause::Damaged { path, cause } => Self::Record { path, why: cause.to_string() },
            Cause::Version { ref path, .. }
            | Cause::TooLarge { ref path, .. }
            | Cause::Untrusted { ref path, .. } => {
                Self::Record { path: path.clone(), why: error.to_string() }
            }
        }
    }
}
