//! Checks that come before and after those of the scheduler's predicates.

use manifest::k8s_openapi::api::core::v1::{AppArmorProfile, Pod, PodSpec, Taint};

use super::node::{NodeCondition, NodeFacts};
use super::requests::QosClass;
use super::{Rejection, is_critical, taints};
use crate::sysctls;

const OS: &str = "kubernetes.io/os";
const LINUX: &str = "linux";
const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";

fn rejection(reason: &str, message: impl Into<String>) -> Rejection {
    Rejection { reason: reason.to_owned(), message: message.into() }
}

/// A node that runs short of something takes critical pods only; if it is only memory, also pods that request some.
pub(super) fn pressure(pod: &Pod, spec: &PodSpec, node: &NodeFacts) -> Option<Rejection> {
    if node.pressure.is_empty() || is_critical(pod) {
        return None;
    }
    let taint =
        Taint { key: MEMORY_PRESSURE_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let is_bearable = || QosClass::of(spec) != QosClass::BestEffort || taints::is_tolerated(spec, &taint);
    if node.pressure == [NodeCondition::MemoryPressure] && is_bearable() {
        return None;
    }
    let conditions: Vec<String> = node.pressure.iter().map(ToString::to_string).collect();
    Some(rejection("Evicted", format!("The node had condition: [{}]. ", conditions.join(" "))))
}

pub(super) fn sysctls(spec: &PodSpec, allowed: &[String]) -> Option<Rejection> {
    let cause = sysctls::not_allowed(spec, allowed)?;
    Some(rejection(sysctls::FORBIDDEN, format!("forbidden sysctl: {cause}")))
}

/// The kubelet reads the pod's own label of this name here, not its selector.
pub(super) fn operating_system(pod: &Pod, spec: &PodSpec) -> Option<Rejection> {
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS));
    if label.is_some_and(|label| label != LINUX) {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Some(rejection("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    let is_other = spec.os.as_ref().is_some_and(|os| os.name != LINUX);
    is_other
        .then(|| rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"))
}

pub(super) fn supplemental_groups(spec: &PodSpec, node: &NodeFacts) -> Option<Rejection> {
    let context = spec.security_context.as_ref();
    let policy = context.and_then(|context| context.supplemental_groups_policy.as_deref());
    (policy == Some("Strict") && !node.supplemental_groups_policy).then(|| {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
        rejection("SupplementalGroupsPolicyNotSupported", message)
    })
}

/// A pod that has run keeps running, whatever became of AppArmor.
pub(super) fn apparmor(phase: &str, spec: &PodSpec, node: &NodeFacts) -> Option<Rejection> {
    let is_new = ["", "Pending"].contains(&phase);
    if node.apparmor || !is_new {
        return None;
    }
    let of_pod = spec.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let contexts = containers.filter_map(|container| container.security_context.as_ref());
    let mut profiles = contexts.filter_map(|context| context.app_armor_profile.as_ref()).chain(of_pod);
    let is_required = profiles.any(|profile: &AppArmorProfile| profile.type_ != "Unconfined");
    is_required.then(|| rejection("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"))
}

/// Features that a node must declare before a pod may rely on them.
pub(super) fn declared_features(spec: &PodSpec, node: &NodeFacts) -> Option<Rejection> {
    let restarts_all = |container: &manifest::k8s_openapi::api::core::v1::Container| {
        let mut rules = container.restart_policy_rules.iter().flatten();
        rules.any(|rule| rule.action == "RestartAllContainers")
    };
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let needs = [
        ("RestartAllContainersOnContainerExits", containers.any(restarts_all)),
        (
            "UserNamespacesHostNetworkSupport",
            spec.host_network == Some(true) && spec.host_users == Some(false),
        ),
    ];
    let is_missing = |name: &str| !node.declared_features.iter().any(|declared| declared == name);
    let missing: Vec<&str> = needs
        .into_iter()
        .filter(|(name, needed)| *needed && is_missing(name))
        .map(|(name, _)| name)
        .collect();
    (!missing.is_empty()).then(|| {
        let message = format!("Pod requires node features that are not available: {}", missing.join(", "));
        rejection("PodFeatureUnsupported", message)
    })
}

/// A machine that shuts down takes no more pods.
pub(super) fn shutdown(node: &NodeFacts) -> Option<Rejection> {
    node.is_shutting_down.then(|| rejection("NodeShutdown", "Pod was rejected as the node is shutting down."))
}
