use std::collections::BTreeSet;

use conflicts::{AntiAffinity, Namespaces, Node, NodeTerm, Operator, Placement, Requirement};
use manifest::PodRef;
use manifest::k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm};
use manifest::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Where a pod is and can go, by its own text. That it was pinned to its node cannot be ruled out from
/// the text alone.
pub(crate) fn placement(pod: &PodRef<'_>, owner_kind: Option<&str>) -> Placement {
    let spec = pod.spec;
    let node = spec.node_name.clone().filter(|name| !name.is_empty());
    let affinity = spec.affinity.as_ref();
    let node_affinity = affinity.and_then(|a| a.node_affinity.as_ref());
    let required = node_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let apart = apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    Placement {
        node: node.map_or(Node::Unbound, Node::Pinned),
        scheduler: spec.scheduler_name.clone(),
        owner_kind: owner_kind.map(str::to_owned),
        node_selector: spec.node_selector.clone().unwrap_or_default(),
        node_terms: required.and_then(|r| r.node_selector_terms.iter().map(node_term).collect()),
        anti_affinity: apart.into_iter().flatten().filter_map(anti_affinity).collect(),
        labels: pod.metadata.and_then(|m| m.labels.clone()).unwrap_or_default(),
    }
}

/// Nothing where it is not understood as a whole: nothing is then known of where the pod cannot go.
fn node_term(term: &NodeSelectorTerm) -> Option<NodeTerm> {
    let of = |list: &Option<Vec<NodeSelectorRequirement>>| {
        list.iter().flatten().map(node_requirement).collect::<Option<Vec<_>>>()
    };
    Some(NodeTerm { labels: of(&term.match_expressions)?, fields: of(&term.match_fields)? })
}

fn node_requirement(found: &NodeSelectorRequirement) -> Option<Requirement> {
    let values = || found.values.iter().flatten().cloned().collect::<BTreeSet<String>>();
    let number = || found.values.as_ref()?.first()?.parse::<i64>().ok();
    let operator = match found.operator.as_str() {
        "Gt" => Operator::Greater(number()?),
        "Lt" => Operator::Less(number()?),
        other => set_operator(other, values())?,
    };
    Some(Requirement { key: found.key.clone(), operator })
}

fn set_operator(name: &str, values: BTreeSet<String>) -> Option<Operator> {
    Some(match name {
        "In" => Operator::In(values),
        "NotIn" => Operator::NotIn(values),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    })
}

/// `None` where it is not certain which pods are meant: the term then keeps no pods apart.
fn anti_affinity(term: &PodAffinityTerm) -> Option<AntiAffinity> {
    let has_keys = |keys: &Option<Vec<String>>| keys.iter().flatten().next().is_some();
    if has_keys(&term.match_label_keys) || has_keys(&term.mismatch_label_keys) {
        return None;
    }
    let listed: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
    let namespaces = match &term.namespace_selector {
        Some(all) if is_empty(all) => Namespaces::All,
        // The namespaces that a selector adds are not known, those that are listed are.
        Some(_) => Namespaces::Listed(listed),
        None if listed.is_empty() => Namespaces::Own,
        None => Namespaces::Listed(listed),
    };
    let selector = match &term.label_selector {
        Some(selector) => Some(requirements(selector)?),
        None => None,
    };
    Some(AntiAffinity { topology_key: term.topology_key.clone(), selector, namespaces })
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

fn requirements(selector: &LabelSelector) -> Option<Vec<Requirement>> {
    let exactly = |(key, value): (&String, &String)| {
        let values = BTreeSet::from([value.clone()]);
        Some(Requirement { key: key.clone(), operator: Operator::In(values) })
    };
    let labels = selector.match_labels.iter().flatten().map(exactly);
    let expression = |found: &LabelSelectorRequirement| {
        let values = found.values.iter().flatten().cloned().collect();
        Some(Requirement { key: found.key.clone(), operator: set_operator(&found.operator, values)? })
    };
    labels.chain(selector.match_expressions.iter().flatten().map(expression)).collect()
}
