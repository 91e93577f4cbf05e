use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no cluster to watch.
    #[error(transparent)]
    Cluster(#[from] check::cluster::Error),
    /// The port is not free, or the address is not one of this machine.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Serving(#[from] secure_serving::Error),
    /// The contexts file cannot be used.
    #[error("cannot use the SELinux contexts {}: {cause}", path.display())]
    Contexts {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A metric of the same name is registered already.
    #[error(transparent)]
    Metrics(#[from] telemetry::metrics::Error),
    /// A part of the controller has ended early.
    #[error("a task of the controller ended early: {0}")]
    Task(String),
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Cluster(check::cluster::Error::NoKubeconfig) => {
                Some("--kubeconfig FILE, or run it in a pod with a service account".to_owned())
            }
            Self::Cluster(error) => error.hint(),
            Self::Listen { .. } => Some("--listen ADDRESS:PORT names another; port 0 is any free port".to_owned()),
            Self::Serving(_) => Some(
                "--tls-cert-file and --tls-private-key-file name PEM files that belong together; without them a \
                 certificate is made"
                    .to_owned(),
            ),
            Self::Contexts { .. } => Some(
                "--selinux-contexts names a copy of a node's /etc/selinux/TYPE/contexts/lxc_contexts".to_owned(),
            ),
            Self::Metrics(_) | Self::Task(_) => None,
        }
    }
}
