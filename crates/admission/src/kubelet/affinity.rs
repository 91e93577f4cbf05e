//! The labels that a pod requires of its node.

use manifest::k8s_openapi::api::core::v1::{NodeSelectorTerm, PodSpec};

use super::node::NodeFacts;
use super::{Rejection, failed};
use crate::placement::holds;

/// The reason of a pod that requires other labels. A kubelet asks the API server for the Node once more before it rejects
/// a pod for this.
pub const NODE_AFFINITY: &str = "NodeAffinity";

pub(super) fn unmet(spec: &PodSpec, node: &NodeFacts) -> Option<Rejection> {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    let is_selected = spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let is_met = |term: &NodeSelectorTerm| {
        let (of_labels, of_fields) = (term.match_expressions.iter(), term.match_fields.iter());
        let (mut of_labels, mut of_fields) = (of_labels.flatten().peekable(), of_fields.flatten().peekable());
        let is_empty = of_labels.peek().is_none() && of_fields.peek().is_none();
        !is_empty
            && of_labels.all(|requirement| holds(requirement, label(&requirement.key)))
            && of_fields.all(|requirement| {
                holds(requirement, (requirement.key == "metadata.name").then_some(node.name.as_str()))
            })
    };
    let is_met = required.is_none_or(|required| required.node_selector_terms.iter().any(is_met));
    (!is_selected || !is_met)
        .then(|| failed(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector"))
}
