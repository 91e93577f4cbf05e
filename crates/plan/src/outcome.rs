use ids::BlockLength;
use selinux::Label;
use serde::{Deserialize, Serialize};
use types::MountPropagation;

use crate::gate::Gate;
use crate::intent::PodIdentity;
use crate::selinux::VolumeLabel;
use crate::warning::Warning;

/// The decision on a pod, with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The pod.
    #[serde(rename = "who")]
    pub pod: PodIdentity,
    /// The user namespace.
    pub user_namespace: UserNamespacePlan,
    /// The other namespaces.
    pub namespaces: Namespaces,
    /// The operator's closed gate that kept a requested user namespace from the pod.
    pub closed_gate: Option<Gate>,
    /// Whether a pair of categories is to be leased, for containers that name no level.
    pub lease_categories: bool,
    /// Every volume that is mounted, in the pod's order.
    pub volumes: Vec<VolumePlan>,
    /// Every mount, by container.
    pub mounts: Vec<MountPlan>,
    /// Differences from what the user may expect.
    pub warnings: Vec<Warning>,
    /// The reasons, line by line.
    pub reasons: Vec<String>,
}

/// The IDs of the pod on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserNamespacePlan {
    /// Their block.
    pub mode: UserNamespaceMode,
    /// Their number; `None` with the host's user namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<BlockLength>,
}

/// The block that a pod's IDs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UserNamespaceMode {
    /// A block that no other pod has.
    Own,
    /// The block that pods with certain volumes have in common; the namespace is still its own.
    Shared,
    /// The host's.
    Host,
}

/// The owners of the other namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// The network.
    pub network: Owner,
    /// Processes.
    pub pid: Owner,
    /// IPC.
    pub ipc: Owner,
}

/// The owner of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// The pod's.
    Own,
    /// The host's.
    Host,
}

/// The decision on a volume as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumePlan {
    /// Its name.
    pub name: String,
    /// How its files get the pod's owners.
    pub owners: Owners,
    /// How it gets its label.
    pub label: VolumeLabel,
}

/// How a volume's files get the pod's owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owners {
    /// They are as on disk: the pod has the host's IDs.
    AsOnDisk,
    /// The mount is idmapped to the pod's block.
    Idmapped,
    /// They are the shared block's on disk.
    SharedBlocks,
    /// They are given to the pod's block on disk, once.
    ChownedOnce,
    /// The node makes them, with the host IDs of the pod's block.
    Translated,
}

/// What one container sees of a volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MountPlan {
    /// The container.
    pub container: String,
    /// The volume.
    pub volume: String,
    /// The mount path.
    pub path: String,
    /// The block that owners are mapped to.
    pub idmap: Idmap,
    /// Its label.
    pub label: LabelPlan,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: bool,
    /// Its mount propagation.
    pub propagation: MountPropagation,
    /// The reason.
    pub why: String,
}

/// The block that a mount is idmapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Idmap {
    /// Idmapped to the pod's own block.
    Own,
    /// Through the shared block.
    Shared,
    /// Not mapped.
    None,
}

/// How a mount gets its label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelPlan {
    /// The way.
    pub how: HowLabelled,
    /// The label, where it is known before the runtime picks it.
    pub context: Option<Label>,
}

/// How a mount gets its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HowLabelled {
    /// By a mount option.
    Mount,
    /// By the runtime, file by file.
    Relabel,
    /// Not at all.
    None,
}
