use std::io;
use std::path::{Path, PathBuf};

use ids::BlockLength;
use ledger::{BadHolder, LedgerError};
use settings::SettingsError;

use crate::gate::{Contradiction, Refusal};
use crate::ward;

/// Why a call is not handed over, or not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The ledger gives no block, or cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The container's name cannot be that of a holder.
    #[error(transparent)]
    Holder(#[from] BadHolder),
    /// The runtime is nowhere.
    #[error("the runtime {} is nowhere in PATH", name.display())]
    NoRuntime {
        /// As it is configured.
        name: PathBuf,
    },
    /// The runtime is this program.
    #[error("{} is wardlet-oci itself: it cannot hand over to itself", path.display())]
    Itself {
        /// As it is configured.
        path: PathBuf,
    },
    /// The runtime cannot be run.
    #[error("cannot run {}: {source}", runtime.display())]
    Run {
        /// The runtime.
        runtime: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The runtime does not say which it is.
    #[error("{} --version: {cause}", runtime.display())]
    Version {
        /// The runtime.
        runtime: PathBuf,
        /// What it did instead.
        cause: String,
    },
    /// The container's configuration is not one.
    #[error("{}: {cause}", file.display())]
    Spec {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// An annotation that cannot be followed.
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
        /// As many.
        asked: BlockLength,
        /// The operator's maximum.
        allowed: BlockLength,
    },
    /// The pod asks for a user namespace and for what cannot be had with one.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The pod asks for a user namespace, the operator's gate is closed, and policy says to refuse.
    #[error("pod {pod} asks for a user namespace, and wrapper.enable_user_namespace_annotation is false")]
    ClosedGate {
        /// The pod.
        pod: String,
    },
    /// The container's sandbox is not what the container needs it to be.
    #[error("sandbox {sandbox} {cause}")]
    Sandbox {
        /// Its name.
        sandbox: String,
        /// What is the matter.
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
    /// Nobody has called us for the container's sandbox.
    #[error("sandbox {sandbox} has no user namespace, and {by} asks for one")]
    Unseen {
        /// Its name.
        sandbox: String,
        /// The annotation that asks.
        by: &'static str,
    },
    /// A container has users that only we can have given it, and nothing is known of it here.
    #[error("container {container} has a user namespace, and there is no record of it in {}", run_dir.display())]
    Unrecorded {
        /// Its name.
        container: String,
        /// Where records are.
        run_dir: PathBuf,
    },
    /// What is known of a container cannot be read or written.
    #[error("{what} {}: {cause}", path.display())]
    Record {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What came of it.
        cause: String,
    },
    /// A thread of ours cannot be started, or did not come back.
    #[error("cannot do two things at a time: {source}")]
    Thread {
        /// Why.
        source: io::Error,
    },
    /// A process is to be run in a container that has ended.
    #[error("container {container} does not run")]
    Ended {
        /// The container.
        container: String,
    },
    /// What was made of a configuration allows more than it did: a defect of ours.
    #[error("internal: the edited configuration would weaken {part}")]
    Weakened {
        /// The part of it.
        part: String,
    },
    /// The container's files, network or descriptors cannot be made ready.
    #[error(transparent)]
    Ward(#[from] ward::Error),
    /// A step in the container's mount namespace failed.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
}

/// The result of most steps.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Settings(e) => return e.hint(),
            Self::Ledger(e) => return e.hint(),
            Self::Ward(e) => return e.hint(),
            Self::Refused(refusal) => return refusal.hint.clone(),
            Self::Annotation { way_out, .. } => way_out.clone(),
            Self::TooManyIds { allowed, .. } => {
                format!("ask for at most {allowed}, or raise userNamespaces.maxIdsPerPod in the node's configuration")
            }
            Self::NoRuntime { .. } | Self::Itself { .. } | Self::Run { .. } => {
                "set wrapper.runtime to the real runtime's absolute path".to_owned()
            }
            Self::ClosedGate { .. } => {
                "open the gate, take the annotation away, or set policy.onClosedGate to asBefore".to_owned()
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
                "take annotations and labels that begin with io.kubernetes.cri off the pod: they are for the container \
                 runtime to write"
                    .to_owned()
            }
            Self::Sandbox { .. } => "delete the pod: a new one gets a new sandbox".to_owned(),
            Self::Ended { .. } => "wait until it is started again; the pod's events say why it ended".to_owned(),
            Self::Version { .. } => {
                "set wrapper.runtime to runc, crun, youki or runsc, or leave pods with the annotation to another handler"
                    .to_owned()
            }
            Self::Record { .. } => "see to it that wrapper.runDir can be read and written by root, and is not full; delete \
                                    the pod if its record is damaged"
                .to_owned(),
            Self::Weakened { .. } => {
                "take the annotation away to run the pod without, and report this, with the container's config.json"
                    .to_owned()
            }
            Self::Kernel(e) => return e.hint().map(str::to_owned),
            Self::Holder(_) | Self::Spec { .. } | Self::Thread { .. } => return None,
        })
    }

    pub(crate) fn record(what: &'static str, path: &Path, cause: impl std::fmt::Display) -> Self {
        Self::Record { what, path: path.to_owned(), cause: cause.to_string() }
    }

    pub(crate) fn spec(file: &Path, cause: impl std::fmt::Display) -> Self {
        Self::Spec { file: file.to_owned(), cause: cause.to_string() }
    }
}
