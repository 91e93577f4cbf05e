//! Events as the API has them.

use std::time::{SystemTime, UNIX_EPOCH};

use agent::ports::EventType;
use serde_json::{Map, Value, json};
use types::time::stamp;

use crate::events::correlate::Correlated;
use crate::events::record::Record;
use crate::status::cut;

/// The component that events name, as the kubelet does: tools look for it.
const COMPONENT: &str = "kubelet";
/// The longest name of an object.
const NAME_BYTES: usize = 253;
/// The longest message.
const MESSAGE_BYTES: usize = 4096;

/// A new event in the API.
pub(super) fn document(event: &Record, correlated: &Correlated, node: &str, name: &str) -> Value {
    let involved = &event.object;
    let mut object = Map::new();
    for (key, value) in [
        ("kind", involved.kind),
        ("apiVersion", "v1"),
        ("namespace", &involved.namespace),
        ("name", &involved.name),
        ("uid", &involved.uid),
        ("fieldPath", involved.field_path.as_deref().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            object.insert(key.to_owned(), json!(value));
        }
    }
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(involved.event_namespace()));
    if !event.annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(event.annotations));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": object,
        "reason": event.reason,
        "message": cut(&correlated.message, MESSAGE_BYTES),
        "type": match event.kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        },
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "firstTimestamp": stamp(correlated.first.millis() / 1000),
        "lastTimestamp": stamp(event.time.millis() / 1000),
        "count": correlated.count,
    })
}

/// The change of an event that is repeated.
pub(super) fn repeated(event: &Record, correlated: &Correlated) -> Value {
    json!({
        "count": correlated.count,
        "lastTimestamp": stamp(event.time.millis() / 1000),
        "message": cut(&correlated.message, MESSAGE_BYTES),
    })
}

/// A name for an event of this object that no other has: the object's name and the time.
pub(super) fn unique_name(object: &str, now: SystemTime, number: u64) -> String {
    let nanoseconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let suffix = format!(".{:x}", nanoseconds.wrapping_add(u128::from(number)));
    let kept = cut(object, NAME_BYTES.saturating_sub(suffix.len())).trim_end_matches(['.', '-']);
    format!("{kept}{suffix}")
}

#[cfg(test)]
mod tests {
    use agent::ports::{Event, EventObject, PodRef};
    use lifecycle::Moment;
    use tokio::time::Instant;
    use types::PodUid;

    use super::*;
    use crate::events::correlate::Correlator;
    use crate::events::record::NodeEvent;

    #[test]
    fn an_event_names_pod_container_node_and_times() {
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid::new("u-1").unwrap() };
        let event = Event {
            kind: EventType::Normal,
            reason: "Started",
            object: EventObject { pod, field_path: Some("spec.containers{app}".into()) },
            image: None,
            message: "Container started".into(),
            annotations: [("starved_resource".to_owned(), "memory".to_owned())].into(),
            log: None,
            time: Moment::from_millis(1_772_368_205_999),
        };
        let event = Record::from(event);
        let correlated = Correlator::new().observe(&event, Instant::now()).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "shop", "annotations": {"starved_resource": "memory"}},
            "involvedObject": {"kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "web", "uid": "u-1",
                "fieldPath": "spec.containers{app}"},
            "reason": "Started", "message": "Container started", "type": "Normal",
            "source": {"component": "kubelet", "host": "node0"},
            "reportingComponent": "kubelet", "reportingInstance": "node0",
            "firstTimestamp": "2026-03-01T12:30:05Z", "lastTimestamp": "2026-03-01T12:30:05Z", "count": 1
        });
        assert_eq!(document(&event, &correlated, "node0", "web.1"), expected);
    }

    #[test]
    fn an_event_of_the_node_is_in_the_default_namespace_and_names_no_other() {
        let time = Moment::from_millis(1_772_368_205_999);
        let event = NodeEvent {
            kind: EventType::Normal,
            reason: "NodeReady",
            uid: String::new(),
            message: "ready".into(),
            time,
        };
        let event = event.of("node0");
        let correlated = Correlator::new().observe(&event, Instant::now()).unwrap();
        let document = document(&event, &correlated, "node0", "node0.1");
        assert_eq!(document["metadata"], json!({"name": "node0.1", "namespace": "default"}));
        let object = json!({"kind": "Node", "apiVersion": "v1", "name": "node0"});
        assert_eq!((&document["involvedObject"], &document["type"]), (&object, &json!("Normal")));
    }

    #[test]
    fn names_fit_and_differ() {
        let long = "p".repeat(253);
        let name = |number| unique_name(&long, UNIX_EPOCH, number);
        assert!(name(u64::MAX).len() <= 253 && name(1) != name(2));
        assert_eq!(unique_name("web", UNIX_EPOCH, 255), "web.ff");
    }
}
