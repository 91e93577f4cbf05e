use types::{BadName, ContainerName};

use crate::container::ProbeKind;

/// Why a pod cannot be run by these rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The pod has no regular container.
    #[error("spec.containers: the pod has no container")]
    NoContainers,
    /// A container has a name that no container can have.
    #[error(transparent)]
    Name(#[from] BadName),
    /// Two containers, of whatever role, have one name.
    #[error("container {name}: the name is used twice in this pod")]
    NameTwice {
        /// The name.
        name: ContainerName,
    },
    /// An init or ephemeral container that is not a sidecar has a probe.
    #[error("container {container}: a {kind} probe on a container that has none by its role")]
    ProbeNotAllowed {
        /// The container.
        container: ContainerName,
        /// Which probe.
        kind: ProbeKind,
    },
    /// An init or ephemeral container that is not a sidecar has a lifecycle hook.
    #[error("container {container}: a lifecycle hook on a container that has none by its role")]
    HookNotAllowed {
        /// The container.
        container: ContainerName,
    },
    /// An ephemeral container with a restart policy.
    #[error("container {container}: an ephemeral container has no restart policy of its own")]
    EphemeralRestart {
        /// The container.
        container: ContainerName,
    },
    /// A number of a probe that must be at least one is zero.
    #[error("container {container}: {field} of the {kind} probe is 0")]
    ZeroInProbe {
        /// The container.
        container: ContainerName,
        /// Which probe.
        kind: ProbeKind,
        /// The field, by its Kubernetes name.
        field: &'static str,
    },
    /// Liveness and startup probes pass or fail by a single success.
    #[error("container {container}: successThreshold of the {kind} probe is {found}, not 1")]
    SuccessThreshold {
        /// The container.
        container: ContainerName,
        /// Which probe.
        kind: ProbeKind,
        /// What it is.
        found: u32,
    },
}

impl Malformed {
    /// What its author can do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoContainers => "give the pod at least one container",
            Self::Name(_) => "name the container with letters, digits and '-'",
            Self::NameTwice { .. } => {
                "give every container its own name, over init, regular and ephemeral ones"
            }
            Self::ProbeNotAllowed { .. } | Self::HookNotAllowed { .. } => {
                "leave it out, or make the init container a sidecar with restartPolicy: Always"
            }
            Self::EphemeralRestart { .. } => "leave restartPolicy out: it is never started again",
            Self::ZeroInProbe { .. } => "leave the field out to have its default",
            Self::SuccessThreshold { .. } => "leave successThreshold out",
        }
    }
}
