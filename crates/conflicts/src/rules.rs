//! By which rules pods are compared.

use selinux::HostDefaults;

/// The rules of one cluster, or of the one it is to become.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The feature gates.
    pub gates: Gates,
    /// What the nodes fill in where a pod's label lacks something. `None` where that is not known,
    /// or not the same on all nodes: missing parts are then incomparable.
    pub defaults: Option<HostDefaults>,
    /// What the SELinux options of a privileged container are worth.
    pub privileged: PrivilegedOptions,
}

/// The gates that matter here. By default as in Kubernetes 1.37: all on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// `SELinuxMountReadWriteOncePod`. Without it no volume is mounted with a label, whatever the others.
    pub read_write_once_pod: bool,
    /// `SELinuxChangePolicy`. Without it no pod's policy counts.
    pub change_policy: bool,
    /// `SELinuxMount`. Without it conflicts are found all the same, but only those on
    /// ReadWriteOncePod volumes are [`Enforced`](crate::Reach::Enforced).
    pub mount: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self { read_write_once_pod: true, change_policy: true, mount: true }
    }
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
