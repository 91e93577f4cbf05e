//! What is known about the machine and its container runtime.

use std::collections::BTreeMap;
use std::net::IpAddr;

use devices::DeviceCount;

use super::conditions::NodeConditions;

/// What the status of a Node is computed from; it changes while the agent runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Machine, runtime, images.
    pub facts: NodeFacts,
    /// Whether the node is ready, and under which pressure.
    pub conditions: NodeConditions,
}

/// What is known about a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The machine; read by [`super::read_machine`].
    pub machine: MachineFacts,
    /// The container runtime; `None` before it has answered.
    pub runtime: Option<RuntimeFacts>,
    /// The images on the node, in any order.
    pub images: Vec<NodeImage>,
    /// The internal addresses, the primary one first; found by [`super::addresses`].
    pub addresses: Vec<IpAddr>,
    /// Volumes that may be mounted, as the attach-detach controller names them; `None` before they are known.
    pub volumes_in_use: Option<Vec<String>>,
    /// The devices of plugins.
    pub devices: DeviceFacts,
}

/// The devices of plugins on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// How many each resource has.
    pub counts: BTreeMap<String, DeviceCount>,
    /// Whether no device plugin was ever on this machine: what a Node that exists has of extended resources is not here.
    pub is_new: bool,
}

/// A machine and its kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Online processors.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of swap.
    pub swap: u64,
    /// The number of huge pages for each page size in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
    /// Bytes of the file system of the agent's root directory; `None` if it cannot be read.
    pub ephemeral_storage: Option<u64>,
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The UUID that the firmware gives.
    pub system_uuid: String,
    /// The ID of this boot.
    pub boot_id: String,
    /// The release of the kernel.
    pub kernel_version: String,
    /// The distribution, as it calls itself.
    pub os_image: String,
    /// The architecture by Go's name: `amd64`, `arm64`.
    pub architecture: String,
    /// Whether the agent runs in a user namespace.
    pub in_user_namespace: bool,
}

/// A container runtime, as CRI `Version` and `Status` describe it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// Its name: `containerd`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its handlers, in any order.
    pub handlers: Vec<RuntimeHandler>,
    /// Whether it supports `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
}

/// A runtime handler with its features.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeHandler {
    /// Its name; empty for the default one.
    pub name: String,
    /// Whether read-only mounts can be read-only with all mounts below them.
    pub recursive_read_only_mounts: bool,
    /// Whether pods can have user namespaces.
    pub user_namespaces: bool,
}

/// An image on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeImage {
    /// Its names by digest.
    pub repo_digests: Vec<String>,
    /// Its names by tag.
    pub repo_tags: Vec<String>,
    /// Its size in bytes.
    pub size: u64,
}
