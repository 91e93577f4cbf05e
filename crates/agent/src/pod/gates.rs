//! The conditions that the readiness gates of a pod name: others set them in the API.

use std::collections::BTreeMap;

use lifecycle::ConditionStatus;
use manifest::k8s_openapi::api::core::v1::Pod;

/// The conditions that the pod's readiness gates name, as far as its status in the API has them.
pub(crate) fn of(pod: &Pod) -> BTreeMap<String, ConditionStatus> {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let named = |kind: &str| {
        let mut all = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        all.find(|condition| condition.type_ == kind)
    };
    let found = gates.filter_map(|gate| {
        let status = match named(&gate.condition_type)?.status.as_str() {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        };
        Some((gate.condition_type.clone(), status))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conditions_of_gates_are_read_and_others_are_not() {
        let text = r#"{"metadata":{},"spec":{"containers":[],"readinessGates":[{"conditionType":"a"},
            {"conditionType":"b"},{"conditionType":"c"}]},"status":{"conditions":[{"type":"a","status":"True"},
            {"type":"b","status":"False"},{"type":"other","status":"True"}]}}"#;
        let found = of(&serde_json::from_str(text).unwrap());
        let expected = [("a", ConditionStatus::True), ("b", ConditionStatus::False)];
        assert_eq!(found, expected.map(|(name, status)| (name.to_owned(), status)).into());
    }
}
