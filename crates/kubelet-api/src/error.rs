use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the kubelet's API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not free, or not one of this machine.
    #[error("cannot listen on {address} for the kubelet's API: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A certificate, key or authority cannot be used.
    #[error("cannot use {}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// No certificate can be made, or the TLS settings contradict each other.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// A metric of the same name is registered already.
    #[error(transparent)]
    Metrics(#[from] telemetry::metrics::Error),
}

impl From<secure_serving::Error> for ServeError {
    fn from(error: secure_serving::Error) -> Self {
        match error {
            secure_serving::Error::File { path, cause } => Self::File { path, cause },
            secure_serving::Error::Tls(cause) => Self::Tls(cause),
        }
    }
}

impl ServeError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrInUse => {
                "stop the kubelet of this node, or set another `port` in the kubelet's configuration"
            }
            Self::Listen { .. } => "check `address` and `port` in the kubelet's configuration",
            Self::File { .. } => {
                "check tlsCertFile, tlsPrivateKeyFile, authentication.x509.clientCAFile and --cert-dir; the files must be PEM, and readable by root"
            }
            Self::Tls(_) => "check tlsMinVersion and tlsCipherSuites in the kubelet's configuration",
            Self::Metrics(_) => return None,
        };
        Some(hint.to_owned())
    }
}
