//! By which rules pods are compared.

use selinux::{HostDefaults, MountGates};

/// The rules of one cluster, or of the one it is to become.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The feature gates.
    pub gates: MountGates,
    /// What the nodes fill in where a pod's label lacks something. `None` where that is not known,
    /// or not the same on all nodes: missing parts are then incomparable.
    pub defaults: Option<HostDefaults>,
    /// What the SELinux options of a privileged container are worth.
    pub privileged: PrivilegedOptions,
}

/// What the SELinux options of a privileged container are worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrivilegedOptions {
    /// They count like those of any container, as in the kubelet.
    #[default]
    Counted,
    /// Nothing, the container runs unconfined anyway: our agent's way.
    Ignored,
}
