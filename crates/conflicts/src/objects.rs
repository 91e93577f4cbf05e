//! The objects that the engine knows, as far as it needs them.

use selinux::SelinuxOptions;

use types::{AccessMode, ChangePolicy};

use crate::keys::{ClaimKey, PodKey, VolumeId};
use crate::placement::Placement;

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub key: PodKey,
    /// Its UID, where it has one.
    pub uid: Option<String>,
    /// Whether it can still use its volumes.
    pub life: Life,
    /// `securityContext.seLinuxChangePolicy`.
    pub change_policy: Option<ChangePolicy>,
    /// Its volumes; those that no container mounts do not matter.
    pub volumes: Vec<PodVolume>,
    /// Where it is, and where it can go.
    pub placement: Placement,
}

impl Pod {
    /// A pod of this name without volumes.
    #[must_use]
    pub fn new(key: PodKey) -> Self {
        Self {
            key,
            uid: None,
            life: Life::Alive,
            change_policy: None,
            volumes: Vec::new(),
            placement: Placement::default(),
        }
    }
}

/// Whether a pod can still use its volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It can: it waits or runs, or its phase is not known.
    Alive,
    /// It has succeeded or failed, and counts no more.
    Finished,
}

/// A pod's volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodVolume {
    /// What the pod calls it.
    pub name: String,
    /// What it is.
    pub source: PodVolumeSource,
    /// One for each `volumeMounts` entry of init, usual and ephemeral containers that names it. Raw
    /// devices have no labels of files and are not among them.
    pub mounts: Vec<Mount>,
}

/// What a pod's volume is. Kinds that no other pod can have, and that no driver mounts with a label, are
/// best left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodVolumeSource {
    /// A claim in the pod's namespace. A generic ephemeral volume is the claim `POD-VOLUME`.
    Claim(String),
    /// Named in the pod itself: the kubelet never mounts such a volume with a label, but it counts
    /// pods that would have to wait.
    Inline {
        /// What it is in the storage.
        id: VolumeId,
        /// What provides it. A CSI driver's inline volume is its pod's alone: leave it out.
        source: VolumeSource,
    },
    /// Named in the pod itself, of a kind that Kubernetes hands to a CSI driver: the kubelet treats it as a
    /// persistent volume.
    Migrated {
        /// What it is in the storage.
        id: VolumeId,
        /// The driver's name.
        driver: String,
        /// The access modes that it gets.
        access_modes: Vec<AccessMode>,
    },
}

/// One mount of a volume into a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// The options that hold for the container, its own or the pod's ([`selinux::effective`]).
    pub options: Option<SelinuxOptions>,
    /// Whether the container is privileged.
    pub privileged: bool,
    /// Whether only a part of the volume is mounted: `subPath` or `subPathExpr`.
    pub sub_path: bool,
    /// Whether it is mounted read-only.
    pub read_only: bool,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub key: ClaimKey,
    /// Its UID, where it has one.
    pub uid: Option<String>,
    /// The persistent volume that it is bound to. For one that will be provisioned, a volume may be
    /// made up.
    pub volume: Option<String>,
}

/// A persistent volume. One of a kind that Kubernetes hands to a CSI driver is given as that driver's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Its name.
    pub name: String,
    /// What it is in the storage.
    pub id: VolumeId,
    /// What provides it.
    pub source: VolumeSource,
    /// Its access modes: which pods and nodes may use it at a time.
    pub access_modes: Vec<AccessMode>,
    /// Whose it is. A claim that names the volume of another claim has no volume; a volume without a claim
    /// belongs to any claim that names it.
    pub claim: Option<ClaimReference>,
}

/// `claimRef` of a persistent volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimReference {
    /// The claim.
    pub key: ClaimKey,
    /// Its UID; compared where both sides have one.
    pub uid: Option<String>,
}

/// What provides a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// This CSI driver.
    Csi {
        /// Its name.
        driver: String,
    },
    /// iSCSI, which can mount with a label.
    Iscsi,
    /// Fibre Channel, which can mount with a label.
    FibreChannel,
    /// Any other, none of which can.
    Other,
}

/// A CSIDriver object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiDriver {
    /// The driver's name.
    pub name: String,
    /// `seLinuxMount`; unset is false.
    pub selinux_mount: bool,
}
