use std::io;
use std::net::SocketAddr;

/// Why there is no URL, no server, or nothing at the other end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is taken or not ours.
    #[error("cannot listen on {address} for exec, attach and port-forward: {source}")]
    Listen {
        /// Where it was tried.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The base URL of the settings is not one that a path can be put behind.
    #[error("base URL {url:?} is not an http:// or https:// URL without query and fragment")]
    BaseUrl {
        /// As given.
        url: String,
    },
    /// A request that CRI does not allow.
    #[error("{field}: {cause}")]
    Request {
        /// The field of the CRI request.
        field: &'static str,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// Too many URLs were given out that nobody has used yet.
    #[error("{waiting} exec, attach and port-forward URLs wait for their clients already")]
    TooMany {
        /// How many there are.
        waiting: usize,
    },
    /// A client's connection could not be had, or not to the end.
    #[error("{url}: {cause}")]
    Broken {
        /// Whereto.
        url: String,
        /// What came of it.
        cause: String,
    },
    /// The runtime could not run a client's command.
    #[error("the runtime could not run it: {message}")]
    Command {
        /// In the runtime's words.
        message: String,
    },
    /// The kernel gave no random numbers for a token.
    #[error("no random numbers for a token: {source}")]
    Random {
        /// What the kernel said.
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
