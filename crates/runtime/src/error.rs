use std::io;
use std::path::PathBuf;

use cri::{Code, Status};

/// Why the runtime did not do what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A newer server has been here, and what it wrote cannot be read as it meant it.
    #[error("{} is of version {version}, which this server does not know", path.display())]
    Newer {
        /// The record.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// There is no such thing.
    #[error("there is no {what} {id:?}")]
    NotFound {
        /// Sandbox or container.
        what: &'static str,
        /// As it was asked for.
        id: String,
    },
    /// What was asked for cannot be.
    #[error("{field}: {cause}")]
    Invalid {
        /// The field, as CRI names it.
        field: String,
        /// What is wrong with it.
        cause: String,
    },
    /// What was asked for is not done.
    #[error(transparent)]
    Refused(#[from] types::Refusal),
    /// Another one has this name.
    #[error("the name of {what} {name:?} is taken by {by}")]
    NameTaken {
        /// Sandbox or container.
        what: &'static str,
        /// The name, made of its metadata.
        name: String,
        /// Whose it is.
        by: String,
    },
    /// It is not in the state that this needs.
    #[error("{what} {id} is {state}; {needed}")]
    State {
        /// Sandbox or container.
        what: &'static str,
        /// Which.
        id: String,
        /// What it is.
        state: &'static str,
        /// What it had to be.
        needed: &'static str,
    },
    /// It took longer than the caller allows.
    #[error("{what} took longer than {seconds} s")]
    Deadline {
        /// What was done.
        what: String,
        /// How long it was given.
        seconds: u64,
    },
    /// This runtime does not do that.
    #[error("{what} is not something this runtime does")]
    NotOffered {
        /// The call.
        what: &'static str,
    },
    /// Another server uses the directory.
    #[error("another server uses {}", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// There are pods of another state directory where this server would have its own.
    #[error("{} in {place} is of a pod that another state directory than {} knows", id, state.display())]
    Foreign {
        /// One of the pods.
        id: String,
        /// Where it is.
        place: String,
        /// The state directory that does not know it.
        state: PathBuf,
    },
    /// The root of an isolated pod, an unprivileged user of the host, cannot reach the pod's files.
    #[error("isolated pods cannot search {}, which is above their files: its mode lacks o+x", dir.display())]
    Closed {
        /// The directory.
        dir: PathBuf,
    },
    /// A file of ours could not be read or written.
    #[error("cannot {what} {}: {cause}", path.display())]
    File {
        /// What was tried, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file of ours does not hold what it should.
    #[error("{}: {cause}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// A program of ours could not be run or failed.
    #[error("{program}: {cause}")]
    Program {
        /// Which.
        program: String,
        /// What became of it.
        cause: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A step of making or unmaking something failed.
    #[error("cannot {step}: {cause}")]
    Step {
        /// The step, as a verb and its object.
        step: String,
        /// What was said.
        cause: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The kernel did not do what was asked of it.
    #[error(transparent)]
    Kernel(Box<kernel::Error>),
    /// A control group could not be made, limited, read or removed.
    #[error(transparent)]
    Cgroups(Box<cgroups::Error>),
    /// A container's files could not be prepared.
    #[error(transparent)]
    Bundle(Box<container::Error>),
    /// The image cannot be used.
    #[error(transparent)]
    Images(Box<images::Error>),
    /// The socket cannot be served.
    #[error(transparent)]
    Wire(Box<cri::Error>),
}

/// What this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(field: &str, cause: impl Into<String>) -> Self {
        Self::Invalid { field: field.to_owned(), cause: cause.into() }
    }

    pub(crate) fn step(step: impl Into<String>, cause: impl std::error::Error) -> Self {
        Self::Step { step: step.into(), cause: chain(&cause), hint: None }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Program { hint, .. } | Self::Step { hint, .. } => hint.clone(),
            Self::InUse { .. } => Some(
                "end the other server, or choose another --state-dir, and another --run-dir and --cgroup where they \
                 are given"
                    .to_owned(),
            ),
            Self::Closed { dir } => {
                Some(format!("chmod o+x {}, or choose a --run-dir elsewhere, such as below /run", dir.display()))
            }
            Self::Foreign { .. } => Some(
                "mount or name the --state-dir that knows these pods, or choose another --run-dir, --cgroup and \
                 --bridge-name; to give them up, end their processes, remove their control groups and unmount \
                 what is below the run directory"
                    .to_owned(),
            ),
            Self::Newer { .. } => Some("start the wardlet that wrote it; its pods go on meanwhile".to_owned()),
            Self::NameTaken { .. } => Some("remove the other one, or ask for the next attempt".to_owned()),
            Self::Json { .. } => Some("if it cannot be repaired, move its directory away".to_owned()),
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Kernel(error) => error.hint().map(Into::into),
            Self::Cgroups(error) => error.hint(),
            Self::Bundle(error) => error.hint(),
            Self::Wire(error) => Some(error.hint().to_owned()),
            _ => None,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::Invalid { .. } | Self::Refused(_) => Code::InvalidArgument,
            Self::NameTaken { .. } => Code::AlreadyExists,
            Self::State { .. } | Self::Closed { .. } => Code::FailedPrecondition,
            Self::Deadline { .. } => Code::DeadlineExceeded,
            Self::NotOffered { .. } => Code::Unimplemented,
            Self::Images(error) if matches!(**error, images::Error::Unknown { .. }) => Code::NotFound,
            Self::Images(error) if matches!(**error, images::Error::BeyondMapping { .. }) => {
                Code::InvalidArgument
            }
            _ => Code::Internal,
        }
    }
}

/// An error with everything it comes from, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text.replace('\n', " ")
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let mut text = chain(&error);
        if let Some(hint) = error.hint() {
            text = format!("{text} (hint: {hint})");
        }
        Self::new(error.code(), text)
    }
}

impl From<monitor::Error> for Error {
    fn from(error: monitor::Error) -> Self {
        let hint = error.hint().map(Into::into);
        Self::Step { step: "talk to the pod's monitor".to_owned(), cause: error.to_string(), hint }
    }
}

impl From<network::Error> for Error {
    fn from(error: network::Error) -> Self {
        let hint = error.hint().map(Into::into);
        Self::Step { step: "give the pod its network".to_owned(), cause: chain(&error), hint }
    }
}

impl From<streaming::Error> for Error {
    fn from(error: streaming::Error) -> Self {
        let hint = error.hint().map(Into::into);
        Self::Step { step: "serve streams".to_owned(), cause: chain(&error), hint }
    }
}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl From<cgroups::Error> for Error {
    fn from(error: cgroups::Error) -> Self {
        Self::Cgroups(Box::new(error))
    }
}

impl From<container::Error> for Error {
    fn from(error: container::Error) -> Self {
        Self::Bundle(Box::new(error))
    }
}

impl From<images::Error> for Error {
    fn from(error: images::Error) -> Self {
        Self::Images(Box::new(error))
    }
}

impl From<cri::Error> for Error {
    fn from(error: cri::Error) -> Self {
        Self::Wire(Box::new(error))
    }
}

impl From<procfs::Error> for Error {
    fn from(error: procfs::Error) -> Self {
        match error {
            procfs::Error::Io { action, path, cause } => Self::File { what: action, path, cause },
            procfs::Error::Format { ref path, .. } => {
                Self::Step { step: format!("read {}", path.display()), cause: error.to_string(), hint: None }
            }
        }
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        let hint = error.hint();
        match error {
            Cause::Io { action, path, cause } => Self::File { what: action, path, cause },
            Cause::Damaged { path, cause } => Self::Json { path, cause },
            Cause::Version { path, found, known } if found > u64::from(known.newest) => {
                Self::Newer { path, version: u32::try_from(found).unwrap_or(u32::MAX) }
            }
            Cause::Untrusted { path, reason } => Self::Step {
                step: format!("use {}", path.display()),
                cause: format!("it {reason}"),
                hint: hint.map(Into::into),
            },
            Cause::Version { ref path, .. }
            | Cause::TooLarge { ref path, .. }
            | Cause::Locked { ref path, .. } => Self::Step {
                step: format!("use {}", path.display()),
                cause: error.to_string(),
                hint: hint.map(Into::into),
            },
        }
    }
}

impl From<selinux::PairError> for Error {
    fn from(error: selinux::PairError) -> Self {
        let step = "allocate SELinux categories".to_owned();
        Self::Step { step, cause: error.message, hint: error.hint }
    }
}
