use std::collections::BTreeMap;
use std::fmt;

use manifest::k8s_openapi::api::core::v1::{Node, Taint};
use types::Quantity;

/// What admission needs to know about the node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What pods may use.
    pub allocatable: BTreeMap<String, Quantity>,
    /// Features that the Node declares.
    pub declared_features: Vec<String>,
    /// Whether the runtime supports `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
    /// Whether AppArmor is enabled in the kernel.
    pub apparmor: bool,
    /// Conditions under which the node takes no more pods.
    pub pressure: Vec<NodeCondition>,
    /// Whether the machine shuts down: it takes no more pods.
    pub is_shutting_down: bool,
    /// Sysctls that pods may set besides the safe ones; `*` at the end stands for any.
    pub allowed_unsafe_sysctls: Vec<String>,
}

/// A condition of a node that runs short of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCondition {
    /// Memory is short.
    MemoryPressure,
    /// Space on a disk is short.
    DiskPressure,
    /// Process IDs are short.
    PidPressure,
}

impl fmt::Display for NodeCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemoryPressure => "MemoryPressure",
            Self::DiskPressure => "DiskPressure",
            Self::PidPressure => "PIDPressure",
        })
    }
}

impl NodeFacts {
    /// Makes sure that the node has at least so much of a resource for pods: what pods have already is theirs, whatever the
    /// Node says.
    pub fn raise(&mut self, resource: &str, units: u64) {
        let least = Quantity::from_units(units);
        let allocatable = self.allocatable.entry(resource.to_owned()).or_insert(least);
        *allocatable = least.max(*allocatable);
    }

    /// The facts that the Node object has. What is not in it is at its default.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref()).into_iter().flatten();
        let amount = |(name, text): (&String, &super::requests::ApiQuantity)| {
            (name.clone(), text.0.parse().unwrap_or_default())
        };
        let features = status.and_then(|status| status.features.as_ref());
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            allocatable: allocatable.map(amount).collect(),
            declared_features: status.and_then(|s| s.declared_features.clone()).unwrap_or_default(),
            supplemental_groups_policy: features.and_then(|f| f.supplemental_groups_policy) == Some(true),
            ..Self::default()
        }
    }
}
