use ids::ContainerId;
use selinux::SelinuxOptions;
use serde::{Deserialize, Serialize};

use types::{ChangePolicy, MountPropagation};

use crate::volume::Volume;

/// What is to run and to be isolated, independent of the format of its manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The pod.
    #[serde(rename = "who")]
    pub pod: PodIdentity,
    /// The field or annotation that asks for a user namespace, for messages: `spec.hostUsers`.
    pub asked_by: String,
    /// Whether the host's user namespace is wanted; `None` when the field is unset.
    pub host_users: Option<bool>,
    /// The host's other namespaces that are wanted.
    pub host: HostNamespaces,
    /// All containers, in order of their start.
    pub containers: Vec<Container>,
    /// All volumes.
    pub volumes: Vec<Volume>,
    /// The SELinux options that hold for containers without any.
    pub selinux: Option<SelinuxOptions>,
    /// How volumes are to get their label.
    pub change_policy: Option<ChangePolicy>,
    /// The group that is to own the volumes.
    pub fs_group: Option<ContainerId>,
    /// Groups that every container is in.
    pub supplemental_groups: Vec<ContainerId>,
    /// How many IDs are wanted (annotation `wardlet.dev/ids`).
    pub ids: Option<u64>,
    /// What to do with volumes that cannot be idmapped (annotation `wardlet.dev/volume-policy`).
    pub volume_policy: Option<VolumeChoice>,
    /// The runtime handler; empty is the runtime's own default.
    pub runtime_handler: String,
}

/// The identity of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodIdentity {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, where it has one yet.
    pub uid: Option<String>,
}

/// Which of the host's namespaces are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostNamespaces {
    /// The host's network.
    pub network: bool,
    /// The host's processes.
    pub pid: bool,
    /// The host's IPC.
    pub ipc: bool,
}

/// One container. Where a pod and its container both say something, this is what holds, but for
/// `selinux`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Where it is written, for messages: `spec.initContainers[0]`.
    pub field: String,
    /// When it runs.
    pub stage: Stage,
    /// The user it runs as.
    pub run_as_user: Option<ContainerId>,
    /// The group it runs as.
    pub run_as_group: Option<ContainerId>,
    /// Whether root is ruled out.
    pub run_as_non_root: Option<bool>,
    /// Whether it is privileged.
    pub privileged: bool,
    /// What it sees of /proc.
    pub proc_mount: ProcMount,
    /// Its capabilities, without the `CAP_`.
    pub capabilities: Capabilities,
    /// Its own SELinux options, not the pod's.
    pub selinux: Option<SelinuxOptions>,
    /// Its mounts, in order.
    pub mounts: Vec<Mount>,
    /// Volumes that it has as block devices.
    pub devices: Vec<Device>,
    /// Ports of the host that it listens on.
    pub host_ports: Vec<u16>,
}

/// When a container runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// Before the others.
    Init,
    /// From the start to the end.
    #[default]
    Main,
    /// Added to a running pod.
    Ephemeral,
}

/// The `/proc` of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcMount {
    /// With masked and read-only paths.
    #[default]
    Default,
    /// All of it.
    Unmasked,
}

/// Capabilities added to and taken from the runtime's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Added.
    pub add: Vec<String>,
    /// Dropped.
    pub drop: Vec<String>,
}

/// A volume in a container's file tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// The volume's name.
    pub volume: String,
    /// The field, for messages: `spec.containers[0].volumeMounts[1]`.
    pub field: String,
    /// The mount path in the container.
    pub path: String,
    /// The part of the volume that is mounted; `None` is all of it.
    pub sub_path: Option<String>,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: RecursiveReadOnly,
    /// Its mount propagation.
    pub propagation: MountPropagation,
}

/// Whether mounts below a read-only mount are read-only too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecursiveReadOnly {
    /// Not requested.
    #[default]
    Disabled,
    /// Where the runtime supports it.
    IfPossible,
    /// Required: otherwise the container does not start.
    Enabled,
}

/// A volume as a block device in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The volume's name.
    pub volume: String,
    /// The device path in the container.
    pub path: String,
}

/// What a pod may choose for volumes that cannot be idmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeChoice {
    /// The pod does not start.
    Refuse,
    /// The pod gets the block that such pods have in common.
    SharedBlock,
    /// The volume's files are given to the pod's block, once, with a journal.
    ChownOnce,
    /// The pod has none but its own ephemeral volumes, or does not start.
    EphemeralOnly,
}

impl Intent {
    /// An intent of this pod that asks for nothing.
    #[must_use]
    pub fn of(namespace: &str, name: &str) -> Self {
        Self {
            pod: PodIdentity { namespace: namespace.into(), name: name.into(), uid: None },
            asked_by: "spec.hostUsers".into(),
            host_users: None,
            host: HostNamespaces::default(),
            containers: Vec::new(),
            volumes: Vec::new(),
            selinux: None,
            change_policy: None,
            fs_group: None,
            supplemental_groups: Vec::new(),
            ids: None,
            volume_policy: None,
            runtime_handler: String::new(),
        }
    }

    /// Every mount with its container.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = (&Container, &Mount)> {
        self.containers.iter().flat_map(|c| c.mounts.iter().map(move |m| (c, m)))
    }

    /// The volume of this name.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|v| v.name == name)
    }
}
