use std::io;
use std::path::{Path, PathBuf};

use types::reason;
use wire::CallError;

/// What this crate's calls return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be done for a pod.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the runtime failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// An image may not be fetched and is not there.
    #[error("image {image:?} is not here, and imagePullPolicy is Never")]
    NeverPull {
        /// The image.
        image: String,
    },
    /// An image could not be fetched.
    #[error("image {image:?} cannot be pulled: {message}")]
    Pull {
        /// The image.
        image: String,
        /// In the runtime's words.
        message: String,
    },
    /// The pod ends, and nobody waits for its image any more.
    #[error("the pod ends before image {image:?} is here")]
    Ending {
        /// The image.
        image: String,
    },
    /// Something that a field names is not there, or cannot be used.
    #[error("{field}: {cause}")]
    Config {
        /// The field.
        field: String,
        /// What is wrong.
        cause: String,
    },
    /// Something that pods may have and that is not run here.
    #[error("{field}: {what} is not run here")]
    NotRun {
        /// The field.
        field: String,
        /// What it asks for.
        what: String,
        /// The way out.
        hint: &'static str,
    },
    /// A field that cannot be kept on this node.
    #[error("{field}: {cause}")]
    Unfit {
        /// The field.
        field: String,
        /// Why not.
        cause: String,
        /// The way out.
        hint: &'static str,
    },
    /// A volume could not be had.
    #[error(transparent)]
    Volumes(#[from] volumes::Error),
    /// The files of a volume could not be made out.
    #[error(transparent)]
    Payload(#[from] volumes::payload::Error),
    /// No block of host IDs could be had or given back.
    #[error(transparent)]
    Ledger(#[from] ledger::LedgerError),
    /// The pod makes no sense.
    #[error(transparent)]
    Malformed(#[from] lifecycle::Malformed),
    /// A file of ours could not be used.
    #[error("cannot {what} {}: {cause}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A record of ours cannot be read.
    #[error("{}: {cause}", path.display())]
    Record {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Another process looks after the pod.
    #[error("another process looks after pod {pod}")]
    Tended {
        /// The pod.
        pod: String,
    },
    /// A pod of the same name runs, with another definition.
    #[error("pod {pod} runs already, with another definition")]
    Other {
        /// The pod.
        pod: String,
    },
    /// What was left of a pod has other host IDs than it would get now.
    #[error("pod {pod}: the ledger has another block of host IDs for it than it was started with")]
    OtherBlock {
        /// The pod.
        pod: String,
    },
    /// A thread of ours ended before its work did.
    #[error("{what} broke off")]
    BrokeOff {
        /// What it did.
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self::File { what, path, cause }
    }

    pub(crate) fn config(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::Config { field: field.into(), cause: cause.into() }
    }

    /// Kubernetes' word for why a container waits.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NeverPull { .. } => "ErrImageNeverPull",
            Self::Pull { .. } | Self::Ending { .. } => reason::ERR_IMAGE_PULL,
            Self::Call(CallError::Refused { call: "ImageStatus", .. }) => "ImageInspectError",
            Self::Call(CallError::Refused { call: "StartContainer", .. }) => "RunContainerError",
            Self::Call(CallError::Refused { call: "RunPodSandbox", .. }) => "FailedCreatePodSandBox",
            Self::Call(_) => "CreateContainerError",
            _ => "CreateContainerConfigError",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Volumes(error) => return error.hint(),
            Self::Ledger(error) => return error.hint(),
            Self::Malformed(error) => error.hint(),
            Self::NotRun { hint, .. } | Self::Unfit { hint, .. } => hint,
            Self::NeverPull { .. } => {
                "import or pull the image first, or set imagePullPolicy to IfNotPresent"
            }
            Self::Pull { .. } => "see whether the image's name is right and its registry can be reached",
            Self::Config { .. } => "give the object in one of the files, or make the reference optional",
            Self::Tended { .. } => "`wardlet ps` shows it; `wardlet stop` ends it",
            Self::Other { .. } => "end it first with `wardlet stop`, or give this one another name",
            Self::OtherBlock { .. } => "end it with `wardlet stop`, then start it anew",
            Self::Call(error) => return error.hint().map(str::to_owned),
            Self::Record { .. } => {
                "use the wardlet that wrote it, or move the pod's directory away once nothing of it runs"
            }
            Self::Payload(_) => "give the object in one of the files, or make the reference optional",
            Self::File { .. } | Self::BrokeOff { .. } | Self::Ending { .. } => {
                return None;
            }
        };
        Some(text.to_owned())
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => Self::File { what: action, path, cause },
            Cause::Damaged { path, cause } => Self::Record { path, cause: cause.to_string() },
            Cause::Version { path, found, .. } => {
                Self::Record { path, cause: format!("version {found} is not known here") }
            }
            Cause::TooLarge { ref path, .. } | Cause::Locked { ref path, .. } => {
                Self::Record { path: path.clone(), cause: error.to_string() }
            }
        }
    }
}
