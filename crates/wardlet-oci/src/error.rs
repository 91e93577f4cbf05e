use std::io;
use std::path::{Path, PathBuf};

use ids::BlockLength;
use ledger::{BadHolder, LedgerError};
use node::{RuntimeError, SettingsError};

use crate::gate::{Contradiction, Refusal};
use crate::isolation;

/// Why `wardlet-oci` refuses a call or cannot execute it. [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node's configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The ledger grants no block, or cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The container's ID cannot be part of a holder's name.
    #[error(transparent)]
    Holder(#[from] BadHolder),
    /// No OCI runtime is configured or found.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The OCI runtime cannot be executed.
    #[error("cannot run {}: {source}", runtime.display())]
    Run {
        /// The runtime.
        runtime: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The output of the runtime's `--version` does not identify it.
    #[error("{} --version: {cause}", runtime.display())]
    Version {
        /// The runtime.
        runtime: PathBuf,
        /// What it printed, or how it failed.
        cause: String,
    },
    /// The container's `config.json` cannot be read, or is not a valid OCI configuration.
    #[error("{}: {cause}", file.display())]
    Spec {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// An annotation has a value that is not valid, or contradicts another one.
    #[error("annotation {key}: {value:?} {cause}")]
    Annotation {
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        cause: String,
        /// What to write.
        way_out: String,
    },
    /// The pod asks for more IDs than the operator gives to one pod.
    #[error("annotation {by} asks for {asked} IDs, and this node gives at most {allowed} to one pod")]
    TooManyIds {
        /// The annotation.
        by: &'static str,
        /// The number that it asks for.
        asked: BlockLength,
        /// The operator's maximum.
        allowed: BlockLength,
    },
    /// The pod asks for a user namespace and for something that is not possible in one.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The pod asks for a user namespace, `wrapper.enable_user_namespace_annotation` is false, and
    /// `policy.onClosedGate` is to refuse such pods.
    #[error("pod {pod} asks for a user namespace, and wrapper.enable_user_namespace_annotation is false")]
    ClosedGate {
        /// The pod.
        pod: String,
    },
    /// The state of the sandbox does not allow the call: it is still being created, has ended, or exists already.
    #[error("sandbox {sandbox} {cause}")]
    Sandbox {
        /// Its name.
        sandbox: String,
        /// Its state.
        cause: String,
    },
    /// The annotations that say which pod a container is of contradict each other.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// A container names a sandbox whose network namespace it is not in.
    #[error(
        "container {container} is not in the network namespace of sandbox {sandbox}, which its annotations name"
    )]
    Foreign {
        /// The container.
        container: String,
        /// The sandbox.
        sandbox: String,
    },
    /// A container is in the network namespace of an isolated pod's sandbox, and its annotations do not name that.
    #[error(
        "container {container} is in the network namespace of sandbox {sandbox}, which has a user namespace, and its \
         annotations do not name that sandbox"
    )]
    Undeclared {
        /// The container.
        container: String,
        /// The sandbox.
        sandbox: String,
    },
    /// The container asks for a user namespace, and its sandbox was created without `wardlet-oci`.
    #[error("sandbox {sandbox} has no user namespace, and {by} asks for one")]
    Unseen {
        /// Its name.
        sandbox: String,
        /// The annotation that asks.
        by: &'static str,
    },
    /// The container has a user namespace that only `wardlet-oci` can have given it, and there is no record of it.
    #[error("container {container} has a user namespace, and there is no record of it in {}", run_dir.display())]
    Unrecorded {
        /// Its name.
        container: String,
        /// The run directory, which has the records.
        run_dir: PathBuf,
    },
    /// A record cannot be read or written.
    #[error(transparent)]
    Records(#[from] oci_records::Error),
    /// The container has ended, so that `exec` is not possible.
    #[error("container {container} does not run")]
    Ended {
        /// The container.
        container: String,
    },
    /// The init process of the container to join has entered a user namespace nested in the pod's.
    #[error(
        "the first process of container {container} has left the pod's user namespace, so that nothing can join it there"
    )]
    LeftNamespace {
        /// The container.
        container: String,
    },
    /// The edited configuration allows more than the caller's: a defect of `wardlet-oci`.
    #[error("internal: the edited configuration would weaken {part}")]
    Weakened {
        /// The part of the configuration.
        part: String,
    },
    /// The container's filesystems, network or standard streams cannot be prepared.
    #[error(transparent)]
    Isolation(#[from] isolation::Error),
    /// A step in the container's mount namespace failed.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
}

/// The result of a call or of one of its steps.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What the operator or the pod's author can do about it, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Settings(e) => return e.hint(),
            Self::Ledger(e) => return e.hint(),
            Self::Isolation(e) => return e.hint(),
            Self::Refused(refusal) => return refusal.hint.clone(),
            Self::Annotation { way_out, .. } => way_out.clone(),
            Self::TooManyIds { allowed, .. } => {
                format!("ask for at most {allowed}, or raise userNamespaces.maxIdsPerPod in the node's configuration")
            }
            Self::Runtime(e) => e.hint(),
            Self::Run { .. } => {
                "set wrapper.runtime to the real runtime's absolute path".to_owned()
            }
            Self::ClosedGate { .. } => {
                "set wrapper.enable_user_namespace_annotation to true, remove the annotation, or set \
                 policy.onClosedGate to asBefore"
                    .to_owned()
            }
            Self::Unseen { .. } => {
                "delete the pod: a new one gets a new sandbox; with CRI-O, set drop_infra_ctr = false \
                                    first, so that it has one"
                    .to_owned()
            }
            Self::Unrecorded { .. } => "have every call read the configuration that the pod was made with: in \
                                        /etc/wardlet/config.yaml, since CRI-O names WARDLET_CONFIG to some calls only; or \
                                        delete the pod, if wrapper.runDir was changed"
                .to_owned(),
            Self::Contradiction(_) | Self::Foreign { .. } | Self::Undeclared { .. } => {
                "remove annotations and labels that begin with io.kubernetes.cri from the pod: only the container \
                 runtime writes them"
                    .to_owned()
            }
            Self::Sandbox { .. } => "delete the pod: a new one gets a new sandbox".to_owned(),
            Self::LeftNamespace { .. } => {
                "delete the pod, and forbid its program to call unshare or clone with CLONE_NEWUSER, as seccompProfile \
                 RuntimeDefault does"
                    .to_owned()
            }
            Self::Ended { .. } => "wait until it is started again; the pod's events say why it ended".to_owned(),
            Self::Version { .. } => {
                "set wrapper.runtime to runc, crun, youki or runsc, or leave pods with the annotation to another handler"
                    .to_owned()
            }
            Self::Records(e) => e.hint(),
            Self::Weakened { .. } => {
                "this is a defect of wardlet-oci: report it with the container's config.json; to run the pod without a \
                 user namespace, remove the annotation"
                    .to_owned()
            }
            Self::Kernel(e) => return e.hint().map(str::to_owned),
            Self::Holder(_) | Self::Spec { .. } => return None,
        })
    }

    pub(crate) fn record(what: &'static str, path: &Path, cause: impl std::fmt::Display) -> Self {
        oci_records::Error::new(what, path, cause).into()
    }

    pub(crate) fn spec(file: &Path, cause: impl std::fmt::Display) -> Self {
        Self::Spec { file: file.to_owned(), cause: cause.to_string() }
    }
}
