//! Events of pods, merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::ports::{Event, EventObject, EventSink, EventType};
use apiserver::events::{ApiEvents, EventLimits};
use lifecycle::Moment;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NODE, eventually, pod, reference};

#[test]
fn repeated_events_are_counted_in_one() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        let namespace = cluster.namespace("events");
        let web = reference(&cluster.create(&pod(&namespace, "web")));
        let events = ApiEvents::start(client, NODE, EventLimits::default());
        let event = |kind, reason, field_path: Option<&str>, seconds: u64| Event {
            kind,
            reason,
            object: EventObject { pod: web.clone(), field_path: field_path.map(str::to_owned) },
            image: None,
            message: format!("{reason} happened"),
            annotations: BTreeMap::new(),
            log: None,
            time: Moment::from_millis(1_772_368_200_000 + seconds * 1000),
        };
        for seconds in 0..3 {
            events.record(event(EventType::Warning, "BackOff", Some("spec.containers{app}"), seconds));
        }
        events.record(event(EventType::Normal, "Killing", None, 9));
        let list = || -> Vec<Value> {
            let text = cluster.kubectl(&["get", "events", "-n", &namespace, "-o", "json"]);
            serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone()
        };
        // They are sent in order.
        let has_last = |list: &Vec<Value>| list.iter().any(|event| event["reason"] == "Killing");
        let found = eventually("the events", || Some(list()).filter(has_last)).await;
        assert_eq!(found.len(), 2, "{found:?}");
        let repeated = found.iter().find(|event| event["reason"] == "BackOff").unwrap();
        assert_eq!((&repeated["count"], &repeated["type"]), (&json!(3), &json!("Warning")));
        assert_eq!(repeated["firstTimestamp"], "2026-03-01T12:30:00Z");
        assert_eq!(repeated["lastTimestamp"], "2026-03-01T12:30:02Z");
        assert_eq!(repeated["source"], json!({"component": "kubelet", "host": NODE}));
        assert_eq!(repeated["involvedObject"]["fieldPath"], "spec.containers{app}");
        assert_eq!(repeated["involvedObject"]["uid"], web.uid.as_str());
        assert_eq!(events.dropped(), 0);

        // The API has forgotten the event: the next one is a new one.
        cluster.kubectl(&["delete", "events", "-n", &namespace, "--all"]);
        events.record(event(EventType::Normal, "Killing", None, 20));
        let found = eventually("the new event", || Some(list()).filter(has_last)).await;
        assert_eq!((found.len(), &found[0]["count"]), (1, &json!(2)));
    });
}

#[test]
fn events_are_sent_as_fast_as_the_node_is_configured() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let cluster = inside;
        let namespace = cluster.namespace("event-limits");
        let web = reference(&cluster.create(&pod(&namespace, "web")));
        let count = || {
            let text = cluster.kubectl(&["get", "events", "-n", &namespace, "-o", "json"]);
            serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().len()
        };
        let record = |events: &ApiEvents, reason: &'static str| {
            events.record(Event {
                kind: EventType::Normal,
                reason,
                object: EventObject { pod: web.clone(), field_path: None },
                image: None,
                message: format!("{reason} happened"),
                annotations: BTreeMap::new(),
                log: None,
                time: Moment::from_millis(1_772_368_200_000),
            });
        };
        let slow = ApiEvents::start(client.clone(), NODE, EventLimits { per_second: 1, burst: 2 });
        let begun = std::time::Instant::now();
        ["Pulling", "Pulled", "Created", "Started"].into_iter().for_each(|reason| record(&slow, reason));
        eventually("four events", || Some(count()).filter(|count| *count == 4)).await;
        // Two at once, then one a second.
        assert!(begun.elapsed() >= std::time::Duration::from_millis(1900), "{:?}", begun.elapsed());
        let unlimited = ApiEvents::start(client, NODE, EventLimits { per_second: 0, burst: 0 });
        record(&unlimited, "Killing");
        eventually("a fifth event", || Some(count()).filter(|count| *count == 5)).await;
    });
}
