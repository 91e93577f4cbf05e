use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation: what was tried, on which object, and the cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A filesystem operation failed.
    #[error("cannot {what} {}: {cause}", path.display())]
    File {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// A record that cannot be parsed.
    #[error("{} cannot be read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// No process listens on the socket.
    #[error("no monitor listens at {}: {cause}", path.display())]
    NoMonitor {
        /// The socket.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The monitor has ended, or has closed the connection.
    #[error("the monitor at {} is gone", path.display())]
    Gone {
        /// The socket.
        path: PathBuf,
    },
    /// The monitor did not respond in time.
    #[error("the monitor at {} has not responded for {} s", path.display(), waited.as_secs())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A packet that is not a valid message.
    #[error("a packet from the monitor's socket is malformed: {why}")]
    Packet {
        /// Why it is invalid.
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
    /// Sending or receiving failed.
    #[error("cannot {what} a packet: {cause}")]
    Socket {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {}: {cause}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The monitor was started and did not start to listen.
    #[error("{} did not start to serve {}: {said}", program.display(), dir.display())]
    NotReady {
        /// The program.
        program: PathBuf,
        /// The pod's directory.
        dir: PathBuf,
        /// The last line that it printed.
        said: String,
    },
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Program { .. } => Some(
                "install wardlet-monitor in the directory of wardlet, or name its directory with --programs",
            ),
            Self::NotReady { .. } => Some("see monitor.log in the pod's directory"),
            Self::Record { .. } => {
                Some("the file is damaged or from a newer version of wardlet; remove the container")
            }
            _ => None,
        }
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => Self::File { what: action, path, cause },
            Cause::Untrusted { path, reason } => Self::Record { path, why: format!("it {reason}") },
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
