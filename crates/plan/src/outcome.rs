use ids::BlockLength;
use labels::Label;
use serde::{Deserialize, Serialize};

use crate::gate::Gate;
use crate::intent::Who;
use crate::selinux::VolumeLabel;
use crate::warning::Warning;

/// What will be done, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// For whom.
    pub who: Who,
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
    /// What is not quite as one may expect.
    pub warnings: Vec<Warning>,
    /// Why it is so, line by line.
    pub reasons: Vec<String>,
}

/// Which IDs the pod has on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserNamespacePlan {
    /// Whose they are.
    pub mode: UserNamespaceMode,
    /// How many; `None` with the host's user namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<BlockLength>,
}

/// Whose IDs a pod has.
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

/// Whose the other namespaces are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// The network.
    pub network: Owner,
    /// Processes.
    pub pid: Owner,
    /// IPC.
    pub ipc: Owner,
}

/// Whose a namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// The pod's.
    Own,
    /// The host's.
    Host,
}

/// What was decided for a volume as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumePlan {
    /// Its name.
    pub name: String,
    /// How its files' owners are made the pod's.
    pub owners: Owners,
    /// How it gets its label.
    pub label: VolumeLabel,
}

/// How a volume's files come to be the pod's.
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
    /// Where it appears.
    pub path: String,
    /// Whose IDs the files seem to have.
    pub idmap: Idmap,
    /// Its label.
    pub label: LabelPlan,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: bool,
    /// Why so.
    pub why: String,
}

/// Through which block a mount is seen.
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
    /// How.
    pub how: HowLabelled,
    /// Which one, where it is known before the runtime picks it.
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
