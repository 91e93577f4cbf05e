//! What an operator sets about a node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Taint;

/// The settings of a Node object, as plain values.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSettings {
    /// The name: of the Node, its lease, and its user at the API server.
    pub name: String,
    /// Whether to create the Node. If not, the status of a Node that something else created is kept up to date.
    pub register: bool,
    /// Labels of a new Node, beside those of the machine. [`NodeSettings::validate`] checks them.
    pub labels: BTreeMap<String, String>,
    /// Taints of a new Node.
    pub taints: Vec<Taint>,
    /// The cloud provider's name of this machine.
    pub provider_id: Option<String>,
    /// Whether a cloud controller manager completes the Node: its addresses are then left to that.
    pub external_cloud_provider: bool,
    /// The addresses that the operator chose; none: found by [`super::addresses`].
    pub node_ips: Vec<IpAddr>,
    /// The most pods.
    pub max_pods: u32,
    /// The most pods for each processor; 0: no such limit.
    pub pods_per_core: u32,
    /// Reserved for the system's daemons.
    pub system_reserved: Reservation,
    /// Reserved for this agent and the container runtime.
    pub kube_reserved: Reservation,
    /// The number of processors that pods may not use. It replaces the processors of both reservations.
    pub reserved_cpus: Option<u32>,
    /// Where eviction begins; what lies below is not for pods.
    pub hard_eviction: HardEviction,
    /// The most images in the status; none: all.
    pub max_images: Option<usize>,
    /// The port of the kubelet API.
    pub port: u16,
    /// The version that the Node reports: `v1.37.1`.
    pub kubelet_version: String,
    /// Features that scheduler and API server may rely on: only what works.
    pub declared_features: Vec<String>,
}

/// Amounts that pods do not get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the file system of the agent's root directory.
    pub ephemeral_storage: u64,
}

/// Thresholds below which pods are evicted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardEviction {
    /// `memory.available`.
    pub memory_available: Option<Threshold>,
    /// `nodefs.available`.
    pub nodefs_available: Option<Threshold>,
}

/// An amount, or a part of the capacity. Where it is not about memory or space, bytes are inodes or process IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// Bytes.
    Bytes(u64),
    /// Millionths of the capacity: 10 % is 100 000.
    PerMillion(u32),
}

impl Threshold {
    /// The threshold as an amount.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::PerMillion(part) => {
                let bytes = u128::from(capacity) * u128::from(part) / 1_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Default for HardEviction {
    /// The kubelet's defaults.
    fn default() -> Self {
        Self {
            memory_available: Some(Threshold::Bytes(100 << 20)),
            nodefs_available: Some(Threshold::PerMillion(100_000)),
        }
    }
}

impl NodeSettings {
    /// The kubelet's defaults for a node of this name that reports this version.
    #[must_use]
    pub fn new(name: impl Into<String>, kubelet_version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            register: true,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            provider_id: None,
            external_cloud_provider: false,
            node_ips: Vec::new(),
            max_pods: 110,
            pods_per_core: 0,
            system_reserved: Reservation::default(),
            kube_reserved: Reservation::default(),
            reserved_cpus: None,
            hard_eviction: HardEviction::default(),
            max_images: Some(50),
            port: 10250,
            kubelet_version: kubelet_version.into(),
            declared_features: Vec::new(),
        }
    }
}
