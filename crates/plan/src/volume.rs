use std::fmt;

use serde::{Deserialize, Serialize};
use types::AccessMode;

/// A volume as the pod names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its name in the pod.
    pub name: String,
    /// The field, for messages: `spec.volumes[0]`.
    pub field: String,
    /// Its source.
    pub source: VolumeSource,
}

/// The source of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeSource {
    /// Keys of a ConfigMap.
    ConfigMap,
    /// Keys of a Secret.
    Secret,
    /// Fields of the pod itself.
    DownwardApi,
    /// Several of these in one, tokens too.
    Projected,
    /// Scratch space that ends with the pod.
    EmptyDir(Medium),
    /// A path of the host.
    HostPath {
        /// The path.
        path: String,
    },
    /// An image's file tree, read-only.
    Image,
    /// Scratch space of a CSI driver's.
    CsiInline {
        /// The driver.
        driver: String,
    },
    /// A persistent volume that the pod's claim is bound to.
    Persistent(PersistentVolume),
    /// A claim of which it is not known what it is bound to.
    Claim {
        /// The claim.
        name: String,
    },
    /// NFS, named in the pod itself.
    Nfs,
    /// iSCSI, named in the pod itself.
    Iscsi,
    /// Fibre Channel, named in the pod itself.
    FibreChannel,
    /// Named in the pod itself, of a plugin that Kubernetes has handed to a CSI driver.
    InTree(InTreeVolume),
    /// Any other, by its field's name.
    Other(String),
}

/// A volume of a plugin that Kubernetes had built in, as the CSI driver has it that took its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InTreeVolume {
    /// The plugin's field in the pod.
    pub kind: String,
    /// What the driver calls the volume.
    pub handle: String,
    /// The persistent volume that the kubelet treats it as; it has no name.
    pub volume: PersistentVolume,
}

/// What an empty directory lives on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Medium {
    /// The node's disk.
    #[default]
    Disk,
    /// Memory.
    Memory,
    /// Huge pages.
    HugePages,
}

/// A persistent volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolume {
    /// Its name.
    pub name: String,
    /// How many nodes or pods may use it at a time.
    pub access_modes: Vec<AccessMode>,
    /// What provides it.
    pub source: PersistentSource,
    /// Its filesystem, where it says so.
    pub fs_type: Option<String>,
}

/// What provides a persistent volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PersistentSource {
    /// A CSI driver.
    Csi {
        /// Its name.
        driver: String,
        /// `seLinuxMount` of its CSIDriver object; `None` where it or the object is missing.
        selinux_mount: Option<bool>,
    },
    /// iSCSI.
    Iscsi,
    /// Fibre Channel.
    FibreChannel,
    /// NFS.
    Nfs,
    /// A path of the host.
    HostPath {
        /// The path.
        path: String,
    },
    /// A disk of the node.
    Local {
        /// Its path.
        path: String,
    },
    /// Any other, by its field's name.
    Other(String),
}

/// A kind of volume, as policies and facts name it: the field's name in a pod, and
/// `persistentVolumeClaim` for whatever a claim is bound to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VolumeKind(pub String);

impl VolumeSource {
    /// The kind's name.
    #[must_use]
    pub fn kind(&self) -> VolumeKind {
        let name = match self {
            Self::ConfigMap => "configMap",
            Self::Secret => "secret",
            Self::DownwardApi => "downwardAPI",
            Self::Projected => "projected",
            Self::EmptyDir(_) => "emptyDir",
            Self::HostPath { .. } => "hostPath",
            Self::Image => "image",
            Self::CsiInline { .. } => "csi",
            Self::Persistent(_) | Self::Claim { .. } => "persistentVolumeClaim",
            Self::Nfs => "nfs",
            Self::Iscsi => "iscsi",
            Self::FibreChannel => "fc",
            Self::InTree(InTreeVolume { kind, .. }) | Self::Other(kind) => kind,
        };
        VolumeKind(name.to_owned())
    }

    /// The persistent volume that the kubelet mounts, where it is known: a claim's, or the one that a volume of the
    /// pod's own is treated as.
    #[must_use]
    pub fn persistent(&self) -> Option<&PersistentVolume> {
        match self {
            Self::Persistent(volume) | Self::InTree(InTreeVolume { volume, .. }) => Some(volume),
            _ => None,
        }
    }

    /// Whether the node makes it for the pod and it ends with the pod: the five kinds that the first
    /// phase of user namespaces had.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        matches!(
            self,
            Self::ConfigMap | Self::Secret | Self::DownwardApi | Self::Projected | Self::EmptyDir(_)
        )
    }

    /// The host's path behind it, if it is one.
    #[must_use]
    pub fn host_path(&self) -> Option<&str> {
        match self {
            Self::HostPath { path } => Some(path),
            Self::Persistent(pv) => match &pv.source {
                PersistentSource::HostPath { path } | PersistentSource::Local { path } => Some(path),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for VolumeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
