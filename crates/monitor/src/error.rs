use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What this crate's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was tried, on what, and what came of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory.
    #[error("cannot {what} {}: {cause}", path.display())]
    File {
        /// What was tried, as a verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A record that cannot be understood.
    #[error("{} cannot be read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody listens there.
    #[error("no monitor listens at {}: {cause}", path.display())]
    NoMonitor {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The monitor has ended, or has closed the connection.
    #[error("the monitor at {} is gone", path.display())]
    Gone {
        /// The socket.
        path: PathBuf,
    },
    /// No answer.
    #[error("the monitor at {} has not answered for {}s", path.display(), waited.as_secs())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// A packet that is no message.
    #[error("a packet cannot be understood: {why}")]
    Packet {
        /// What is wrong with it.
        why: String,
    },
    /// A message that does not fit into a packet.
    #[error("a message of {size} bytes is larger than {largest}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        largest: usize,
    },
    /// The socket.
    #[error("cannot {what} a packet: {cause}")]
    Socket {
        /// What was tried, as a verb.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {}: {cause}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The monitor was started and did not come to listen.
    #[error("{} did not begin to serve {}: {said}", program.display(), dir.display())]
    NotReady {
        /// The program.
        program: PathBuf,
        /// The pod's directory.
        dir: PathBuf,
        /// Its last words.
        said: String,
    },
}

impl Error {
    /// What somebody can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Program { .. } => {
                Some("wardlet-monitor must lie beside wardlet, or its path must be given by a setting")
            }
            Self::NotReady { .. } => Some("see monitor.log in the pod's directory"),
            Self::Record { .. } => Some("the file is damaged or of a newer wardlet; remove the container"),
            _ => None,
        }
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => Self::File { what: action, path, cause },
            Cause::TooLarge { path, limit } => {
                Self::Record { path, why: format!("it has more than {limit} bytes") }
            }
            Cause::Damaged { ref path, .. }
            | Cause::Version { ref path, .. }
            | Cause::Locked { ref path, .. } => Self::Record { path: path.clone(), why: error.to_string() },
        }
    }
}

impl From<procfs::Error> for Error {
    fn from(error: procfs::Error) -> Self {
        match error {
            procfs::Error::Io { action, path, cause } => Self::File { what: action, path, cause },
            procfs::Error::Format { path, why } => Self::Record { path, why: why.to_owned() },
        }
    }
}
