//! Taints of the node that end pods, and the pods that tolerate them.

use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec, Taint, Toleration};

use super::node::NodeFacts;
use super::{Rejection, failed, is_static};

/// The kubelet leaves the other effects to the scheduler.
const NO_EXECUTE: &str = "NoExecute";

pub(super) fn untolerated(pod: &Pod, spec: &PodSpec, node: &NodeFacts) -> Option<Rejection> {
    let mut ending = node.taints.iter().filter(|taint| taint.effect == NO_EXECUTE);
    let is_hit = !is_static(pod) && ending.any(|taint| !is_tolerated(spec, taint));
    is_hit.then(|| failed("TaintToleration", "node(s) had taints that the pod didn't tolerate"))
}

/// Whether one of the pod's tolerations is for this taint.
pub(super) fn is_tolerated(spec: &PodSpec, taint: &Taint) -> bool {
    spec.tolerations.iter().flatten().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let is_for = |wanted: Option<String>, found: &str| wanted.is_none_or(|wanted| wanted == found);
    if !is_for(given(&toleration.effect), &taint.effect) || !is_for(given(&toleration.key), &taint.key) {
        return false;
    }
    let wanted = toleration.value.as_deref().unwrap_or_default();
    let found = taint.value.as_deref().unwrap_or_default();
    let numbers = || found.parse::<i64>().ok().zip(wanted.parse::<i64>().ok());
    match toleration.operator.as_deref() {
        None | Some("" | "Equal") => wanted == found,
        Some("Exists") => true,
        Some("Lt") => numbers().is_some_and(|(found, wanted)| found < wanted),
        Some("Gt") => numbers().is_some_and(|(found, wanted)| found > wanted),
        Some(_) => false,
    }
}
