use std::io;
use std::path::PathBuf;

use super::trouble::Trouble;
use crate::controller::NAME;

/// Why nothing could be read from a cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a kubeconfig nor a pod's service account was found.
    #[error("no cluster is named: KUBECONFIG is not set, ~/.kube/config is not there, and this is no pod")]
    NoKubeconfig,
    /// A kubeconfig cannot be read.
    #[error("cannot read the kubeconfig {}: {cause}", path.display())]
    KubeconfigUnreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A kubeconfig was read and makes no sense.
    #[error("{kubeconfig} cannot be used: {cause}")]
    KubeconfigUnusable {
        /// The kubeconfig, for messages.
        kubeconfig: String,
        /// What is wrong with it.
        cause: String,
    },
    /// No context was named, and the kubeconfig has no current one.
    #[error("{kubeconfig} has no current context")]
    NoCurrentContext {
        /// The kubeconfig, for messages.
        kubeconfig: String,
        /// The contexts that it has.
        contexts: Vec<String>,
    },
    /// The context that was named is not in the kubeconfig.
    #[error("{kubeconfig} has no context {name:?}")]
    NoContext {
        /// The kubeconfig, for messages.
        kubeconfig: String,
        /// The context.
        name: String,
        /// The contexts that it has.
        contexts: Vec<String>,
    },
    /// The context names a cluster that is not in the kubeconfig.
    #[error("{kubeconfig} has no cluster {name:?}, which its context names")]
    NoCluster {
        /// The kubeconfig, for messages.
        kubeconfig: String,
        /// The cluster.
        name: String,
        /// The contexts that it has.
        contexts: Vec<String>,
    },
    /// The event loop that waits for the server cannot be made.
    #[error("cannot wait for a server: {0}")]
    Runtime(io::Error),
    /// The server cannot be reached, or does not accept the credentials.
    #[error("{cause}")]
    Server {
        /// What went wrong, with the server's URL.
        cause: String,
        /// What to do about it.
        hint: String,
    },
    /// The controller keeps no status in this namespace.
    #[error("namespace {namespace} has no status of the controller: there is no ConfigMap {}", NAME)]
    NoStatus {
        /// The namespace.
        namespace: String,
    },
    /// The status of the controller cannot be read.
    #[error("the ConfigMap {} of namespace {namespace} is no status of the controller: {cause}", NAME)]
    Status {
        /// The namespace.
        namespace: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The server shows no kind of object that makes pods.
    #[error("{server} shows neither pods nor workloads: {cause}")]
    NothingShown {
        /// Its URL.
        server: String,
        /// What it said of the first kind.
        cause: String,
    },
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoKubeconfig => {
                "--kubeconfig FILE, or check a dump instead: kubectl get … -o json | wardlet check -"
            }
            Self::KubeconfigUnreadable { .. } => "--kubeconfig FILE or KUBECONFIG names another",
            Self::KubeconfigUnusable { .. } => {
                "`kubectl config view` with the same file shows what kubectl makes of it"
            }
            Self::NoCurrentContext { contexts, .. }
            | Self::NoContext { contexts, .. }
            | Self::NoCluster { contexts, .. } => {
                return Some(match contexts.as_slice() {
                    [] => "it has no contexts; `kubectl config set-context` makes one".to_owned(),
                    known => format!("--context NAME; it has {}", known.join(", ")),
                });
            }
            Self::Server { hint, .. } => hint,
            Self::NothingShown { .. } => {
                "the built-in ClusterRole `view` with a ClusterRoleBinding is enough for pods and workloads; --namespace needs a RoleBinding only"
            }
            Self::NoStatus { .. } => {
                "start `wardlet controller`, which writes it, or name its namespace: --namespace NAME"
            }
            Self::Status { .. } => "the controller and this program may be of different versions",
            Self::Runtime(_) => return None,
        };
        Some(text.to_owned())
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        Self::Server { cause: trouble.cause, hint: trouble.hint }
    }
}
