//! The kubelet's own admission: which pods of a cluster this node rejects for good, in the kubelet's order and with its
//! reasons and messages. And which of them it ends for others, or because it runs short of something ([`evict`]).
//!
//! A rejected pod is `Failed`; its controller creates another one. What only wardlet cannot do is never a reason here: see
//! [`Candidate`](crate::Candidate).

mod affinity;
pub mod evict;
mod fit;
mod host_ports;
mod node;
mod preempt;
mod requests;
mod resize;
mod security;
mod taints;

pub use affinity::NODE_AFFINITY;
pub use node::{NodeCondition, NodeFacts};
pub use preempt::{CannotPreempt, Requirement, victims};
pub use resize::{Infeasible, asks_for_more, infeasible_resize, qos_rank};

use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};

/// Annotation of pods that do not come from the API server: `file`, `http`. The value is `api` for those that do.
const SOURCE: &str = "kubernetes.io/config.source";
/// Annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Pods of this priority or a higher one are critical for the cluster.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// The reason of a pod that is rejected because something failed.
pub const UNEXPECTED: &str = "UnexpectedAdmissionError";

/// Why the node rejects a pod for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The reason, in the kubelet's words: `OutOfcpu`.
    pub reason: String,
    /// The kubelet's message.
    pub message: String,
}

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The node runs it.
    Admitted,
    /// The node runs it once so much is free: other pods must be ended. Only critical pods get this.
    Preempts(Vec<Requirement>),
    /// The node never runs it.
    Rejected(Rejection),
}

/// A pod that was admitted, or asks to be.
#[derive(Debug, Clone, Copy)]
pub struct NodePod<'a> {
    /// The pod, with the API's defaults.
    pub pod: &'a Pod,
    /// Its phase in the API; empty if it has none.
    pub phase: &'a str,
}

/// Why a pod is rejected before it gets devices of plugins; all other reasons come after.
#[must_use]
pub fn before_devices(pod: &Pod, node: &NodeFacts) -> Option<Rejection> {
    let default = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&default);
    security::pressure(pod, spec, node).or_else(|| security::sysctls(spec, &node.allowed_unsafe_sysctls))
}

/// The rejection of a pod that does not get its devices, in the kubelet's words.
#[must_use]
pub fn no_devices(cause: &str) -> Rejection {
    let message = format!("Allocate failed due to {cause}, which is unexpected");
    Rejection { reason: UNEXPECTED.to_owned(), message }
}

/// Judges a pod beside those that the node has admitted.
#[must_use]
pub fn judge(new: NodePod<'_>, node: &NodeFacts, admitted: &[&Pod]) -> Admission {
    let default = PodSpec::default();
    let (pod, spec) = (new.pod, new.pod.spec.as_ref().unwrap_or(&default));
    let before = before_devices(pod, node)
        .or_else(|| security::operating_system(pod, spec))
        .or_else(|| security::supplemental_groups(spec, node));
    if let Some(rejection) = before {
        return Admission::Rejected(rejection);
    }
    let lacking = fit::lacking(spec, node, admitted);
    let unmet = [
        affinity::unmet(spec, node),
        node_name(spec, node),
        host_ports::conflict(spec, admitted),
        taints::untolerated(pod, spec, node),
    ];
    let mut unmet = unmet.into_iter().flatten();
    let mut outcome = Admission::Admitted;
    if is_critical(pod) {
        // A critical pod is not rejected for resources: pods with less priority make room.
        if let Some(rejection) = unmet.next() {
            return Admission::Rejected(rejection);
        }
        if !lacking.is_empty() {
            outcome = Admission::Preempts(lacking.iter().map(fit::Lacking::requirement).collect());
        }
    } else if let Some(rejection) = lacking.first().map(fit::Lacking::rejection).or_else(|| unmet.next()) {
        return Admission::Rejected(rejection);
    }
    let after = security::apparmor(new.phase, spec, node)
        .or_else(|| security::declared_features(spec, node))
        .or_else(|| security::shutdown(node));
    after.map_or(outcome, Admission::Rejected)
}

fn node_name(spec: &PodSpec, node: &NodeFacts) -> Option<Rejection> {
    let named = spec.node_name.as_deref().unwrap_or_default();
    let is_other = !named.is_empty() && named != node.name;
    is_other.then(|| failed("NodeName", "node(s) didn't match the requested node name"))
}

/// The rejection of one of the scheduler's predicates.
fn failed(predicate: &str, cause: &str) -> Rejection {
    let message = format!("Predicate {predicate} failed: {cause}");
    Rejection { reason: predicate.to_owned(), message }
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether a pod comes from a file of the node.
#[must_use]
pub fn is_static(pod: &Pod) -> bool {
    annotation(pod, SOURCE).is_some_and(|source| source != "api")
}

/// Whether the cluster or the node depends on a pod: static pods, their mirror pods, and those of the highest priorities.
#[must_use]
pub fn is_critical(pod: &Pod) -> bool {
    is_static(pod)
        || annotation(pod, MIRROR).is_some()
        || priority(pod).is_some_and(|p| p >= CRITICAL_PRIORITY)
}

fn priority(pod: &Pod) -> Option<i32> {
    pod.spec.as_ref()?.priority
}

#[cfg(test)]
mod tests;
