//! What a resize of an admitted pod asks for.

use manifest::k8s_openapi::api::core::v1::{PodSpec, Volume};

use super::requests::{self, ApiQuantity, CPU, MEMORY, QosClass};

/// A resize that this node can never do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Infeasible {
    /// Why, in a word for metrics.
    pub detail: &'static str,
    /// The same for people.
    pub message: &'static str,
}

/// Whether a pod asks for more CPU or memory than it was given.
#[must_use]
pub fn asks_for_more(given: &PodSpec, asked: &PodSpec) -> bool {
    let (given, asked) = (requests::of_pod(given), requests::of_pod(asked));
    [CPU, MEMORY].into_iter().any(|name| asked.of(name) > given.of(name))
}

/// The QoS class of a pod as a number: pods of a higher class are served first.
#[must_use]
pub fn qos_rank(spec: &PodSpec) -> u8 {
    match QosClass::of(spec) {
        QosClass::BestEffort => 0,
        QosClass::Burstable => 1,
        QosClass::Guaranteed => 2,
    }
}

/// Why a pod that runs as `running` can never have what it asks for; `None` if that is only a matter of room.
#[must_use]
pub fn infeasible_resize(running: &PodSpec, asked: &PodSpec) -> Option<Infeasible> {
    if size_limits(running) != size_limits(asked) {
        let message = "Memory-backed emptyDir volume resize is disabled";
        return Some(Infeasible { detail: "memory_volume_resize_gate_off", message });
    }
    // The API server refuses it; the cgroup of a pod cannot move to that of another class.
    (QosClass::of(running) != QosClass::of(asked)).then_some(Infeasible {
        detail: "qos_class_change",
        message: "Pod QOS Class may not change as a result of resizing",
    })
}

/// The limits of the volumes in memory, by name.
fn size_limits(spec: &PodSpec) -> Vec<(&str, Option<types::Quantity>)> {
    let of_memory = |volume: &Volume| {
        let found = volume.empty_dir.as_ref()?;
        (found.medium.as_deref() == Some("Memory")).then(|| found.size_limit.clone())
    };
    let amount = |written: ApiQuantity| written.0.parse().unwrap_or_default();
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|one| Some((one.name.as_str(), of_memory(one)?.map(amount)))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(resources: &Value, limit: &Value) -> PodSpec {
        let medium = json!({"medium": "Memory", "sizeLimit": limit});
        serde_json::from_value(json!({
            "containers": [{"name": "a", "resources": resources}],
            "volumes": [{"name": "m", "emptyDir": medium}, {"name": "d", "emptyDir": {"sizeLimit": "1Gi"}}],
        }))
        .unwrap()
    }

    fn requesting(cpu: &str, memory: &str) -> PodSpec {
        spec(&json!({"requests": {"cpu": cpu, "memory": memory}}), &json!("1Gi"))
    }

    #[test]
    fn more_of_one_resource_is_more() {
        let given = requesting("1", "1Gi");
        let cases = [("1", "1Gi", false), ("2", "1Mi", true), ("500m", "2Gi", true), ("1m", "1Mi", false)];
        for (cpu, memory, expected) in cases {
            assert_eq!(asks_for_more(&given, &requesting(cpu, memory)), expected, "{cpu} {memory}");
        }
    }

    #[test]
    fn what_this_node_can_never_do_is_said() {
        let running = requesting("1", "1Gi");
        assert_eq!(infeasible_resize(&running, &requesting("9000", "1Gi")), None);
        let same_size = spec(&json!({"requests": {"cpu": "2"}}), &json!("1024Mi"));
        assert_eq!(infeasible_resize(&running, &same_size), None);
        let larger = spec(&json!({"requests": {"cpu": "1"}}), &json!("2Gi"));
        assert_eq!(infeasible_resize(&running, &larger).unwrap().detail, "memory_volume_resize_gate_off");
        let guaranteed = spec(&json!({"limits": {"cpu": "1", "memory": "1Gi"}}), &json!("1Gi"));
        assert_eq!(infeasible_resize(&running, &guaranteed).unwrap().detail, "qos_class_change");
        assert_eq!([&running, &guaranteed, &spec(&json!({}), &json!(null))].map(qos_rank), [1, 2, 0]);
    }
}
