use std::collections::BTreeSet;

use super::*;

#[test]
fn there_are_at_least_120_pods_and_each_has_its_own_name() {
    let pods = all();
    let names: BTreeSet<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    assert!(pods.len() >= 120 && names.len() == pods.len(), "{} pods", pods.len());
    assert!(names.iter().all(|name| name.len() < 64), "a name is a label's value");
    assert_eq!(few().len(), 14);
}

#[test]
fn the_text_of_every_change_is_an_object() {
    for change in changes() {
        for text in [change.spec, change.container, change.metadata] {
            assert!(parsed(text, 0).is_object(), "{}: {text}", change.name);
            let text = text.replace("\"PORT\"", "1").replace("\"PORT+1\"", "1");
            serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{}: {error}", change.name));
        }
    }
}

fn keys(tree: &Value, all: &mut BTreeSet<String>) {
    match tree {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            all.insert(key.clone());
            keys(value, all);
        }),
        Value::Array(items) => items.iter().for_each(|item| keys(item, all)),
        _ => {}
    }
}

/// Honoured fields that no CRI request depends on, or that this node cannot have.
const NOT_SENT: [(&str, &str); 7] = [
    ("readinessGates conditionType", "part of the pod's status"),
    (
        "nodeName affinity nodeAffinity nodeSelectorTerms matchExpressions matchFields operator",
        "for admission",
    ),
    ("requiredDuringSchedulingIgnoredDuringExecution", "for admission"),
    (
        "httpGet grpc tcpSocket host httpHeaders path port scheme service initialDelaySeconds",
        "the client probes",
    ),
    ("successThreshold", "the client counts"),
    ("fileKeyRef volumeName", "the client reads the file, which an earlier container of the pod writes"),
    ("mode", "alpha of emptyDir: the API server drops it; of files: the client writes them"),
];

/// A field that becomes honoured must be sent by a pod here, or be said not to be sent.
#[test]
fn every_honoured_field_is_in_a_pod() {
    let text = include_str!("../../../../docs/podspec.md");
    let rows = text.lines().filter(|line| line.contains("| honoured |"));
    let fields = rows.filter_map(|line| line.split('`').nth(3)).flat_map(str::split_whitespace);
    let mut sent = BTreeSet::new();
    all().iter().map(|pod| &pod.manifest).chain(&objects()).for_each(|tree| keys(tree, &mut sent));
    let elsewhere: BTreeSet<&str> = NOT_SENT.iter().flat_map(|(names, _)| names.split_whitespace()).collect();
    let missing: Vec<&str> =
        fields.filter(|field| !sent.contains(*field) && !elsewhere.contains(field)).collect();
    assert!(missing.is_empty(), "no pod has {missing:?}");
}
