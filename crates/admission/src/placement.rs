//! Whether a pod may be on this node. A pod from a file is placed by its author, and what it says
//! about its place must hold all the same.

use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

use crate::error::{Error, Result};

const HINT: &str = "run it on the node that it names, or leave the field out";

/// The labels that every node has.
fn labels(node: &str) -> BTreeMap<&'static str, String> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    BTreeMap::from([
        ("kubernetes.io/hostname", node.to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/arch", architecture.to_owned()),
    ])
}

/// # Errors
/// If the pod is for another node.
pub(crate) fn check(spec: &PodSpec, node: &str) -> Result<()> {
    let elsewhere =
        |field: &str, cause: String| Err(Error::Unfit { field: field.to_owned(), cause, hint: HINT });
    if let Some(named) = spec.node_name.as_deref().filter(|name| !name.is_empty() && *name != node) {
        return elsewhere("spec.nodeName", format!("it is for node {named:?}, and this is {node:?}"));
    }
    let labels = labels(node);
    for (key, value) in spec.node_selector.iter().flatten() {
        if labels.get(key.as_str()) != Some(value) {
            return elsewhere("spec.nodeSelector", format!("this node has no label {key}={value}"));
        }
    }
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let needed = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let is_met = |term: &NodeSelectorTerm| {
        let of_labels = term.match_expressions.iter().flatten();
        let of_fields = term.match_fields.iter().flatten();
        let is_empty = of_labels.clone().next().is_none() && of_fields.clone().next().is_none();
        !is_empty
            && of_labels.clone().all(|r| holds(r, labels.get(r.key.as_str()).map(String::as_str)))
            && of_fields.clone().all(|r| holds(r, (r.key == "metadata.name").then_some(node)))
    };
    if needed.is_some_and(|needed| !needed.node_selector_terms.iter().any(is_met)) {
        let cause = format!("no term holds for this node, whose labels are {}", shown(&labels));
        return elsewhere("spec.affinity.nodeAffinity", cause);
    }
    Ok(())
}

/// Whether the value of a label, or of a field, meets a requirement.
pub(crate) fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.iter().any(|v| v == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let pair = number(value).zip(number(values.first().map(String::as_str)));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => pair.is_some_and(|(own, bound)| own > bound),
        "Lt" => pair.is_some_and(|(own, bound)| own < bound),
        _ => false,
    }
}

fn shown(labels: &BTreeMap<&str, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(spec: &str) -> Option<String> {
        let spec: PodSpec = serde_json::from_str(&format!(r#"{{"containers":[],{spec}}}"#)).unwrap();
        check(&spec, "node-1").err().map(|e| e.to_string())
    }

    fn affinity(requirement: &str, list: &str) -> Option<String> {
        refusal(&format!(
            r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{{"{list}":[{requirement}]}}]}}}}}}"#
        ))
    }

    #[test]
    fn a_pod_that_names_another_node_is_refused() {
        assert_eq!(refusal(r#""nodeName":"node-1""#), None);
        let error = refusal(r#""nodeName":"node-2""#).unwrap();
        assert_eq!(error, "spec.nodeName: it is for node \"node-2\", and this is \"node-1\"");
    }

    #[test]
    fn labels_that_every_node_has_are_matched_and_others_are_not_there() {
        assert_eq!(
            refusal(r#""nodeSelector":{"kubernetes.io/os":"linux","kubernetes.io/hostname":"node-1"}"#),
            None
        );
        let error = refusal(r#""nodeSelector":{"disk":"ssd"}"#).unwrap();
        assert_eq!(error, "spec.nodeSelector: this node has no label disk=ssd");
    }

    #[test]
    fn every_operator_of_node_affinity_is_kept() {
        for (holds, requirement) in [
            (true, r#"{"key":"kubernetes.io/os","operator":"In","values":["linux","x"]}"#),
            (false, r#"{"key":"kubernetes.io/os","operator":"In","values":["x"]}"#),
            (false, r#"{"key":"kubernetes.io/os","operator":"NotIn","values":["linux"]}"#),
            (true, r#"{"key":"disk","operator":"NotIn","values":["ssd"]}"#),
            (true, r#"{"key":"kubernetes.io/arch","operator":"Exists"}"#),
            (false, r#"{"key":"disk","operator":"Exists"}"#),
            (true, r#"{"key":"disk","operator":"DoesNotExist"}"#),
            (false, r#"{"key":"disk","operator":"Gt","values":["1"]}"#),
            (false, r#"{"key":"kubernetes.io/hostname","operator":"Lt","values":["1"]}"#),
        ] {
            assert_eq!(affinity(requirement, "matchExpressions").is_none(), holds, "{requirement}");
        }
        let name = |value: &str| format!(r#"{{"key":"metadata.name","operator":"In","values":["{value}"]}}"#);
        assert_eq!(affinity(&name("node-1"), "matchFields"), None);
        assert!(
            affinity(&name("node-2"), "matchFields").unwrap().starts_with("spec.affinity.nodeAffinity: ")
        );
    }
}
