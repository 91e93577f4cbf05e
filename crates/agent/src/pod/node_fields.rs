//! The node, as variables and files of its pods tell of it.

use std::collections::BTreeMap;

use types::Quantity;

/// The node, as the downward API tells of it. What is empty is that of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFields {
    /// Its addresses.
    pub host_ips: Vec<String>,
    /// What of its resources is for pods, by the name of the resource.
    pub allocatable: BTreeMap<String, Quantity>,
}
