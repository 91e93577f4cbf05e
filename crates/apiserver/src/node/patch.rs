//! The difference between the Node as it is and as it should be, as a strategic merge patch of `nodes/status`.

use k8s_openapi::api::core::v1::{Node, NodeStatus};
use serde_json::{Map, Value, json};

/// Whether the Node should change, apart from the times of its heartbeat.
#[must_use]
pub fn differs(seen: &Node, wanted: &Node) -> bool {
    without_heartbeats(seen) != without_heartbeats(wanted)
}

/// What the Node says and a node writes: labels, annotations, and the status without the times of its heartbeat.
pub(super) fn without_heartbeats(node: &Node) -> Value {
    let mut status = node.status.clone().unwrap_or_default();
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None;
    }
    // The order of conditions says nothing; the server appends new ones.
    if let Some(conditions) = &mut status.conditions {
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    }
    json!({
        "labels": node.metadata.labels,
        "annotations": node.metadata.annotations,
        "status": status,
    })
}

/// The patch that turns `seen` into `wanted`, with the times of the heartbeat. Only labels, annotations and the status
/// are in it.
#[must_use]
pub fn status_patch(seen: &Node, wanted: &Node) -> Value {
    let mut metadata = Map::new();
    insert(&mut metadata, "labels", map_patch(&json!(seen.metadata.labels), &json!(wanted.metadata.labels)));
    insert(
        &mut metadata,
        "annotations",
        map_patch(&json!(seen.metadata.annotations), &json!(wanted.metadata.annotations)),
    );
    let mut patch = Map::new();
    insert(&mut patch, "metadata", some(metadata));
    let empty = NodeStatus::default();
    let old = seen.status.as_ref().unwrap_or(&empty);
    let new = wanted.status.as_ref().unwrap_or(&empty);
    insert(&mut patch, "status", status(old, new));
    Value::Object(patch)
}

fn status(old: &NodeStatus, new: &NodeStatus) -> Option<Value> {
    // Two lists are merged by their elements' `type`. All others are replaced as a whole.
    let bare =
        |status: &NodeStatus| json!(NodeStatus { addresses: None, conditions: None, ..status.clone() });
    let mut patch = match map_patch(&bare(old), &bare(new)) {
        Some(Value::Object(patch)) => patch,
        _ => Map::new(),
    };
    if old.addresses != new.addresses {
        // Merged by type, the second of two addresses of one type would be lost.
        let mut list: Vec<Value> = new.addresses.iter().flatten().map(|address| json!(address)).collect();
        list.push(json!({"$patch": "replace"}));
        patch.insert("addresses".to_owned(), Value::Array(list));
    }
    let changed: Vec<Value> = new
        .conditions
        .iter()
        .flatten()
        .filter(|condition| !old.conditions.iter().flatten().any(|known| known == *condition))
        .map(|condition| json!(condition))
        .collect();
    insert(&mut patch, "conditions", Some(Value::Array(changed)).filter(|list| *list != json!([])));
    some(patch)
}

/// The patch of a map: what is new or changed, and `null` for what is gone. Values that are not maps are replaced.
fn map_patch(old: &Value, new: &Value) -> Option<Value> {
    let empty = Map::new();
    let map = |value: &'_ Value| value.as_object().unwrap_or(&empty).clone();
    let (old, new) = (map(old), map(new));
    let mut patch = Map::new();
    for (key, value) in &new {
        match old.get(key) {
            Some(known) if known == value => {}
            Some(known) if known.is_object() && value.is_object() => {
                insert(&mut patch, key, map_patch(known, value));
            }
            _ => insert(&mut patch, key, Some(value.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    some(patch)
}

fn insert(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

fn some(map: Map<String, Value>) -> Option<Value> {
    Some(map).filter(|map| !map.is_empty()).map(Value::Object)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use k8s_openapi::api::core::v1::NodeCondition;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use k8s_openapi::jiff::Timestamp;

    use super::super::{
        MachineFacts, NodeConditions, NodeImage, NodeSettings, NodeState, NotReady, RuntimeFacts,
        RuntimeHandler, adopted_node, new_node, updated_node,
    };
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn settings() -> NodeSettings {
        let mut settings = NodeSettings::new("a", "v1.37.1");
        settings.labels.insert("team".to_owned(), "blue".to_owned());
        settings
    }

    fn state() -> NodeState {
        let mut state = NodeState::default();
        state.facts.machine = MachineFacts {
            cpus: 2,
            memory: 1 << 30,
            ephemeral_storage: Some(1 << 40),
            architecture: "amd64".to_owned(),
            ..MachineFacts::default()
        };
        let handler = |name: &str| RuntimeHandler { name: name.to_owned(), ..RuntimeHandler::default() };
        let handlers = vec![handler("runsc"), handler(""), handler("runc")];
        let (name, version) = ("wardlet".to_owned(), "0.1.0".to_owned());
        state.facts.runtime =
            Some(RuntimeFacts { name, version, handlers, supplemental_groups_policy: true });
        state.facts.addresses = ["10.0.0.1", "fd00::1"].map(|ip| ip.parse::<IpAddr>().unwrap()).to_vec();
        let image =
            |name: &str, size| NodeImage { repo_tags: vec![name.to_owned()], size, ..NodeImage::default() };
        state.facts.images = vec![image("a:1", 10), image("b:1", 20)];
        state.conditions.not_ready = Vec::new();
        state
    }

    fn update(seen: &Node, state: &NodeState, second: i64) -> Node {
        updated_node(seen, &settings(), state, at(second))
    }

    #[test]
    fn time_alone_changes_nothing_but_the_heartbeat() {
        let node = new_node(&settings(), &state(), at(1));
        let later = update(&node, &state(), 100);
        assert!(!differs(&node, &later));
        let patch = status_patch(&node, &later);
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        assert_eq!(patch["status"].as_object().unwrap().len(), 1, "{patch}");
        assert_eq!(conditions.len(), 4);
        assert!(conditions.iter().all(|c| c["lastHeartbeatTime"] == "1970-01-01T00:01:40Z"));
        assert!(conditions.iter().all(|c| c["lastTransitionTime"] == "1970-01-01T00:00:01Z"));
    }

    #[test]
    fn the_order_of_images_and_handlers_changes_nothing() {
        let node = new_node(&settings(), &state(), at(1));
        let mut other = state();
        other.facts.images.reverse();
        other.facts.runtime.as_mut().unwrap().handlers.reverse();
        assert!(!differs(&node, &update(&node, &other, 2)));
        let status = json!(node.status);
        let names: Vec<&str> = status["runtimeHandlers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|h| h["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["", "runc", "runsc"]);
    }

    #[test]
    fn changed_addresses_replace_the_list() {
        let node = new_node(&settings(), &state(), at(1));
        let mut moved = state();
        moved.facts.addresses[1] = "fd00::2".parse().unwrap();
        let patch = status_patch(&node, &update(&node, &moved, 2));
        assert_eq!(
            patch["status"]["addresses"],
            json!([
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalIP", "address": "fd00::2"},
                {"type": "Hostname", "address": "a"},
                {"$patch": "replace"},
            ])
        );
    }

    #[test]
    fn an_image_that_is_gone_and_a_pressure_are_changes() {
        let node = new_node(&settings(), &state(), at(1));
        let mut fewer = state();
        fewer.facts.images.pop();
        let patch = status_patch(&node, &update(&node, &fewer, 2));
        assert_eq!(patch["status"]["images"], json!([{"names": ["a:1"], "sizeBytes": 10}]));
        let mut pressed = state();
        pressed.conditions.disk_pressure = true;
        assert!(differs(&node, &update(&node, &pressed, 2)));
        fewer.facts.images.clear();
        let patch = status_patch(&node, &update(&node, &fewer, 2));
        assert_eq!(patch["status"]["images"], Value::Null);
    }

    #[test]
    fn conditions_and_resources_of_other_writers_are_kept() {
        let mut node = new_node(&settings(), &state(), at(1));
        let status = node.status.as_mut().unwrap();
        let network = NodeCondition {
            type_: "NetworkUnavailable".to_owned(),
            status: "False".to_owned(),
            ..NodeCondition::default()
        };
        status.conditions.as_mut().unwrap().push(network.clone());
        let gpu = ("example.com/gpu".to_owned(), Quantity("1".to_owned()));
        status.capacity.as_mut().unwrap().insert(gpu.0.clone(), gpu.1.clone());
        status.allocatable.as_mut().unwrap().insert(gpu.0, gpu.1);
        let later = update(&node, &state(), 2);
        assert!(later.status.as_ref().unwrap().conditions.as_ref().unwrap().contains(&network));
        assert!(!differs(&node, &later));
    }

    #[test]
    fn huge_pages_of_a_lost_size_are_removed() {
        let mut before = state();
        before.facts.machine.huge_pages.insert(2 << 20, 4);
        let node = new_node(&settings(), &before, at(1));
        let patch = status_patch(&node, &update(&node, &state(), 2));
        assert_eq!(patch["status"]["capacity"], json!({"hugepages-2Mi": null}));
    }

    #[test]
    fn a_node_that_existed_keeps_its_labels_and_taints_and_gets_the_owned_ones() {
        let mut seen = Node::default();
        let labels = [("team", "red"), ("kubernetes.io/arch", "arm64"), ("foreign", "x")];
        let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        seen.metadata.labels = Some(labels.map(text).into());
        let adopted = adopted_node(&seen, &settings(), &state());
        let labels = adopted.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["team"].as_str(), labels["foreign"].as_str()), ("red", "x"));
        assert_eq!(
            (labels["kubernetes.io/arch"].as_str(), labels["kubernetes.io/hostname"].as_str()),
            ("amd64", "a")
        );
        assert_eq!(adopted.spec, seen.spec);
        let patch = status_patch(&seen, &adopted);
        assert!(patch["metadata"]["labels"].get("team").is_none(), "{patch}");
        assert!(patch["metadata"]["annotations"].is_object());
    }

    #[test]
    fn a_cloud_controller_keeps_the_addresses_that_it_set() {
        let mut settings = settings();
        settings.external_cloud_provider = true;
        let new = new_node(&settings, &state(), at(1));
        let addresses = json!(new.status.as_ref().unwrap().addresses);
        assert_eq!(addresses, json!([{"type": "Hostname", "address": "a"}]));
        assert_eq!(new.spec.as_ref().unwrap().taints.as_ref().unwrap().len(), 1);
        settings.node_ips = vec!["10.0.0.9".parse().unwrap()];
        let later = updated_node(&new, &settings, &state(), at(2));
        assert_eq!(later.status.as_ref().unwrap().addresses, new.status.as_ref().unwrap().addresses);
        assert_eq!(later.metadata.annotations.unwrap()["alpha.kubernetes.io/provided-node-ip"], "10.0.0.9");
    }

    #[test]
    fn a_node_without_a_runtime_is_not_ready_and_says_so() {
        let mut state = state();
        state.facts.runtime = None;
        state.conditions =
            NodeConditions { not_ready: vec![NotReady::RuntimeDown], ..NodeConditions::default() };
        let status = json!(new_node(&settings(), &state, at(1)).status);
        assert_eq!(status["nodeInfo"]["containerRuntimeVersion"], "Unknown");
        assert_eq!(status["conditions"][3]["message"], "container runtime is down");
        assert_eq!(status["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
    }
}
