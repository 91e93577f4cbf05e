//! Whether the node has enough for a pod beside those that it has admitted.

use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};
use types::is_extended_resource;

use super::Rejection;
use super::node::NodeFacts;
use super::preempt::Requirement;
use super::requests::{self, Amounts, CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

/// A resource of which the node does not have enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lacking {
    name: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Lacking {
    pub(super) fn rejection(&self) -> Rejection {
        let Self { name, requested, used, capacity } = self;
        let message = format!(
            "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Rejection { reason: format!("OutOf{name}"), message }
    }

    /// How much must become free.
    pub(super) fn requirement(&self) -> Requirement {
        let free = self.capacity.saturating_sub(self.used);
        Requirement { resource: self.name.clone(), amount: self.requested.saturating_sub(free) }
    }
}

/// All resources of which the node does not have enough, in the kubelet's order.
pub(super) fn lacking(spec: &PodSpec, node: &NodeFacts, admitted: &[&Pod]) -> Vec<Lacking> {
    let capacity =
        |name: &str| node.allocatable.get(name).map_or(0, |amount| requests::counted(name, *amount));
    let mut used = Amounts::default();
    for spec in admitted.iter().filter_map(|pod| pod.spec.as_ref()) {
        used.add(&requests::of_pod(spec));
    }
    let wanted = requests::of_pod(spec);
    let count = i64::try_from(admitted.len()).unwrap_or(i64::MAX);
    let pods = Lacking { name: PODS.to_owned(), requested: 1, used: count, capacity: capacity(PODS) };
    let named = |name: &str| Lacking {
        name: name.to_owned(),
        requested: wanted.of(name),
        used: used.of(name),
        capacity: capacity(name),
    };
    let first = [CPU, MEMORY, EPHEMERAL_STORAGE];
    // A resource of devices that the node does not have at all is the scheduler's affair.
    let is_known = |name: &&str| !is_extended_resource(name) || node.allocatable.contains_key(*name);
    let others = wanted.0.keys().map(String::as_str).filter(|name| *name != PODS && !first.contains(name));
    let all = first.into_iter().chain(others.filter(is_known)).map(named);
    let is_short = |one: &Lacking| one.requested > 0 && one.requested > one.capacity.saturating_sub(one.used);
    [pods].into_iter().chain(all).filter(is_short).collect()
}
