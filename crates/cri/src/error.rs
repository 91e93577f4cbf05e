use std::io;
use std::path::PathBuf;

/// Why two sides do not talk to each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not the name of a Unix socket.
    #[error("{endpoint:?} is not an endpoint: {cause}")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// Why it is invalid.
        cause: &'static str,
    },
    /// There is nothing at the socket's path.
    #[error("{}: there is no such socket", socket.display())]
    Absent {
        /// Its path.
        socket: PathBuf,
    },
    /// The socket exists, and no process listens on it.
    #[error("{}: no process listens on this socket", socket.display())]
    NobodyListens {
        /// Its path.
        socket: PathBuf,
    },
    /// We may not open it.
    #[error("{}: no right to connect to this socket", socket.display())]
    NoRight {
        /// Its path.
        socket: PathBuf,
    },
    /// Connecting failed for another reason.
    #[error("{}: cannot connect: {cause}", socket.display())]
    Connect {
        /// Its path.
        socket: PathBuf,
        /// What the kernel or the other side said.
        cause: String,
    },
    /// The other side took the connection and then said nothing for too long.
    #[error("{}: no answer within {seconds} s", socket.display())]
    Silent {
        /// Its path.
        socket: PathBuf,
        /// How long it was given.
        seconds: u64,
    },
    /// Another process serves on this socket.
    #[error("{}: another process serves on this socket", socket.display())]
    Taken {
        /// Its path.
        socket: PathBuf,
    },
    /// There is something at the path that is no socket; it is left alone.
    #[error("{}: this is not a socket", socket.display())]
    NoSocket {
        /// Its path.
        socket: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot {action} {}: {source}", path.display())]
    Listen {
        /// The operation that failed.
        action: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The socket's directory or its lock cannot be used.
    #[cfg(feature = "server")]
    #[error(transparent)]
    Lock(#[from] durable::Error),
    /// Serving ended by an error.
    #[error("serving ended: {cause}")]
    Serve {
        /// What the transport said.
        cause: String,
    },
}

/// What this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Endpoint { .. } => "name a Unix socket: unix:///run/containerd/containerd.sock",
            Self::Absent { .. } => "start the container runtime, or name the socket it listens on",
            Self::NobodyListens { .. } => {
                "start the container runtime: the socket was left by one that has ended"
            }
            Self::NoRight { .. } => "run this as root",
            Self::Connect { .. } => "see whether this is the socket of a container runtime",
            Self::Silent { .. } => "look into the container runtime's log: it hangs, or it speaks no CRI",
            Self::Taken { .. } => "end the other process, or choose another socket",
            Self::NoSocket { .. } => "remove it, or choose another path",
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "another process made a socket there just now: end it, or choose another socket"
            }
            #[cfg(feature = "server")]
            Self::Lock(error) => error.hint().unwrap_or("make the directory, with the right to write to it"),
            Self::Listen { .. } => "make the directory, with the right to write to it",
            Self::Serve { .. } => "look into the log for what came before",
        }
    }
}
