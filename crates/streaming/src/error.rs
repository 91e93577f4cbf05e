use std::io;
use std::net::SocketAddr;

/// A failure of the streaming server, or of a client of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot bind its address.
    #[error("cannot listen on {address} for exec, attach and port-forward: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The configured base URL is invalid: a path must be able to follow it.
    #[error("base URL {url:?} is not an http:// or https:// URL without query and fragment")]
    BaseUrl {
        /// The value that was given.
        url: String,
    },
    /// A request that CRI does not allow.
    #[error("{field}: {cause}")]
    Request {
        /// The field of the CRI request.
        field: &'static str,
        /// Why it is invalid.
        cause: &'static str,
    },
    /// Too many URLs were given out that no client has used yet.
    #[error("too many exec, attach and port-forward URLs: {waiting} wait for their clients already")]
    TooMany {
        /// The number of unused URLs.
        waiting: usize,
    },
    /// A client could not connect, or its connection broke.
    #[error("{url}: {cause}")]
    Broken {
        /// The URL.
        url: String,
        /// The cause.
        cause: String,
    },
    /// The runtime could not run a client's command.
    #[error("the runtime could not run the command: {message}")]
    Command {
        /// The runtime's error message.
        message: String,
    },
    /// The kernel gave no random bytes for a token.
    #[error("cannot get random bytes for a token: {source}")]
    Random {
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// What can be done about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { .. } => Some("choose a free port, or port 0 for any, on an address of this host"),
            Self::BaseUrl { .. } => Some("give it as http://127.0.0.1:10350"),
            Self::TooMany { .. } => Some("try again in a minute: URLs that are not used expire"),
            Self::Request { .. } | Self::Random { .. } | Self::Broken { .. } | Self::Command { .. } => None,
        }
    }
}

/// With [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;
