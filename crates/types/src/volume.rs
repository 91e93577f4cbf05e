//! What pods and persistent volumes say about mounts, in the words of the Kubernetes API.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `mountPropagation`: where mounts that are made below a volume's mount turn up as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MountPropagation {
    /// Nowhere: the kernel's private propagation.
    #[default]
    None,
    /// Mounts of the host turn up in the container: the kernel's slave propagation.
    HostToContainer,
    /// Mounts of either turn up in both: the kernel's shared propagation.
    Bidirectional,
}

impl MountPropagation {
    /// The value that the API writes so; `None` if there is no such value.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::HostToContainer, Self::Bidirectional]
            .into_iter()
            .find(|value| value.name() == name)
    }

    /// As the API writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::HostToContainer => "HostToContainer",
            Self::Bidirectional => "Bidirectional",
        }
    }
}

/// `accessModes` of a persistent volume: which nodes and pods may use it at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AccessMode {
    /// One pod.
    ReadWriteOncePod,
    /// One node.
    ReadWriteOnce,
    /// Any node, reading.
    ReadOnlyMany,
    /// Any node.
    ReadWriteMany,
}

impl AccessMode {
    /// The value that the API writes so; `None` if there is no such value.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::ReadWriteOncePod, Self::ReadWriteOnce, Self::ReadOnlyMany, Self::ReadWriteMany]
            .into_iter()
            .find(|value| value.name() == name)
    }

    /// As the API writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadWriteOncePod => "ReadWriteOncePod",
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
        }
    }
}

/// `seLinuxChangePolicy`: how the volumes of a pod get its SELinux label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChangePolicy {
    /// By a mount option, where the volume can be mounted with one.
    MountOption,
    /// By the runtime, file by file.
    Recursive,
}

impl ChangePolicy {
    /// The value that the API writes so; `None` if there is no such value.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::MountOption, Self::Recursive].into_iter().find(|value| value.name() == name)
    }

    /// As the API writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MountOption => "MountOption",
            Self::Recursive => "Recursive",
        }
    }
}

impl fmt::Display for ChangePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_api_writes_them() {
        for name in ["None", "HostToContainer", "Bidirectional"] {
            assert_eq!(MountPropagation::from_name(name).unwrap().name(), name);
        }
        for name in ["ReadWriteOncePod", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"] {
            assert_eq!(AccessMode::from_name(name).unwrap().name(), name);
            assert_eq!(serde_json::to_value(AccessMode::from_name(name)).unwrap(), name);
        }
        for name in ["MountOption", "Recursive"] {
            assert_eq!(ChangePolicy::from_name(name).unwrap().to_string(), name);
        }
        assert_eq!(MountPropagation::from_name("none"), None);
        assert_eq!(AccessMode::from_name("RWX"), None);
        assert_eq!(ChangePolicy::from_name(""), None);
    }
}
