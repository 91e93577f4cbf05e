use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ids::IdKind;

use crate::digest::Digest;
use crate::fault::Fault;

/// What this crate's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was tried, on what, and what came of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The file system said no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}", path.display())]
    DiskFull {
        /// What was written.
        path: PathBuf,
    },
    /// The kernel said no.
    #[error("{0}")]
    Kernel(#[from] kernel::Error),
    /// Another process kept the store too long.
    #[error("the image store has been locked for {}s: {}", waited.as_secs(), path.display())]
    Stuck {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// A newer wardlet wrote this store.
    #[error("{} is of version {found}; this wardlet knows version {known}", path.display())]
    TooNew {
        /// The store.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The newest we know.
        known: u32,
    },
    /// A record of the store cannot be understood.
    #[error("{} cannot be read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No digest.
    #[error("{text:?} is no digest")]
    Digest {
        /// What it was taken for.
        text: String,
    },
    /// No image's name.
    #[error("{text:?} is no name of an image: {why}")]
    Reference {
        /// The name.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What was to be imported is no image.
    #[error("{} is no image: {why}", path.display())]
    NotAnImage {
        /// The file or directory.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
    /// A manifest, index or configuration cannot be understood.
    #[error("{what} cannot be understood: {why}")]
    Document {
        /// Which.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// Content is not what it was announced to be.
    #[error("{what} has the digest {found}, not {expected}")]
    WrongDigest {
        /// The content.
        what: String,
        /// What was announced.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// Content is longer or shorter than announced.
    #[error("{what} has {found} bytes, not {expected}")]
    WrongSize {
        /// The content.
        what: String,
        /// What was announced.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// An entry of a layer, or of an archive, was refused.
    #[error("{layer}: entry {entry:?}: {fault}")]
    Entry {
        /// The layer or archive.
        layer: String,
        /// The entry's name as it is there.
        entry: String,
        /// Why.
        fault: Fault,
    },
    /// A layer was refused as a whole.
    #[error("{layer}: {fault}")]
    Layer {
        /// The layer or archive.
        layer: String,
        /// Why.
        fault: Fault,
    },
    /// The image is not for this machine.
    #[error("{image} is for {}, not for {wanted}", offered.join(", "))]
    OtherPlatform {
        /// The image.
        image: String,
        /// What this machine is.
        wanted: String,
        /// What the image is for.
        offered: Vec<String>,
    },
    /// A registry could not be reached, or answered with an error.
    #[error("{endpoint}: {what}: {why}")]
    Registry {
        /// Scheme, host and port.
        endpoint: String,
        /// What was asked for.
        what: String,
        /// What came instead.
        why: String,
    },
    /// A registry wants other credentials, or any.
    #[error("{endpoint}: {what}: not authorized: {why}")]
    Unauthorized {
        /// Scheme, host and port.
        endpoint: String,
        /// What was asked for.
        what: String,
        /// What was tried.
        why: String,
    },
    /// The registry does not have it.
    #[error("{endpoint} does not have {what}")]
    NotThere {
        /// Scheme, host and port.
        endpoint: String,
        /// What was asked for.
        what: String,
    },
    /// A certificate file is no use.
    #[error("certificates of {}: {why}", path.display())]
    Certificates {
        /// The file, or where the system's are.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The store has no such image.
    #[error("there is no image {name}")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A short ID stands for several images.
    #[error("{name} may be {}", candidates.join(" or "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Which it may be.
        candidates: Vec<String>,
    },
    /// A container runs from the image.
    #[error("{image} is in use by {by}")]
    InUse {
        /// The image.
        image: String,
        /// By whom.
        by: String,
    },
    /// No name for whoever uses an image.
    #[error(
        "{text:?} cannot name a user of an image: letters, digits, dot, dash and underscore can, 1 to 200"
    )]
    Holder {
        /// What was given.
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
    /// Whoever asked for it wants it no more.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The way out, where we know one.
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

    /// Whether asking again may help: the way to the registry failed, not the registry.
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
            Cause::Version { ref path, .. } | Cause::TooLarge { ref path, .. } => {
                Self::Record { path: path.clone(), why: error.to_string() }
            }
        }
    }
}
