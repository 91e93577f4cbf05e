//! The pods that both clients run: each field that reaches CRI alone, and in combinations.
//!
//! - [`Change`]: what one pod has besides the plainest pod; [`of_pods`], [`of_containers`] and [`of_volumes`] list them.
//! - [`all`]: the plainest pod, each change alone, then pairs of changes that agree with each other.

mod of_containers;
mod of_pods;
mod of_volumes;

use serde_json::{Map, Value, json};

use crate::cluster::addresses::NODE_NAME;
use crate::images::BUSYBOX;

/// The directory of the host that some pods have as a volume; the runner makes it.
pub(crate) const HOST_DIRECTORY: &str = "/var/tmp/compare-cri";
/// A seccomp profile below the kubelet's and our directory of profiles; the runner writes it.
pub(crate) const PROFILE: &str = "allow.json";

/// How many pairs there are at most.
const PAIRS: usize = 60;
/// The first host port; each pod that has one gets its own.
const FIRST_PORT: u64 = 20_000;

/// One difference from the plainest pod. The texts are JSON objects that are merged into it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    name: &'static str,
    /// Into the pod's `spec`.
    spec: &'static str,
    /// Into the first container.
    container: &'static str,
    /// Into the pod's `metadata`.
    metadata: &'static str,
    /// Subjects of the change. Changes with a common subject are not combined.
    about: &'static [&'static str],
}

/// The subject of a change that is combined with no other: a kubelet does not run the pod.
const ALONE: &str = "alone";

const PLAIN: Change = Change { name: "plain", spec: "{}", container: "{}", metadata: "{}", about: &[] };

const fn spec(name: &'static str, about: &'static [&'static str], spec: &'static str) -> Change {
    Change { name, spec, about, ..PLAIN }
}

const fn container(name: &'static str, about: &'static [&'static str], container: &'static str) -> Change {
    Change { name, container, about, ..PLAIN }
}

/// A pod that both clients run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) manifest: Value,
}

impl Pod {
    /// The names of its containers, those that end before the others included.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &str> {
        let lists = ["/spec/initContainers", "/spec/containers"].into_iter();
        let all = lists.filter_map(|list| self.manifest.pointer(list)?.as_array()).flatten();
        all.filter_map(|container| container.get("name")?.as_str())
    }

    /// Whether the node refuses it, so that no call is made.
    pub(crate) fn is_refused(&self) -> bool {
        self.manifest.pointer("/metadata/labels/refused").is_some()
    }
}

/// Every change.
fn changes() -> Vec<Change> {
    [of_pods::CHANGES, of_containers::CHANGES, of_volumes::CHANGES].concat()
}

/// The pods of the whole comparison.
pub(crate) fn all() -> Vec<Pod> {
    let changes = changes();
    let mut pods = vec![pod(0, &[PLAIN])];
    pods.extend(changes.iter().enumerate().map(|(index, change)| pod(index + 1, &[*change])));
    let pairs = (1..changes.len()).flat_map(|step| changes.iter().zip(changes.iter().cycle().skip(step * 7)));
    let agreeing = pairs.filter(|(one, other)| agree(one, other));
    let mut seen = std::collections::BTreeSet::new();
    let fresh = agreeing.filter(|(one, other)| {
        let names = if one.name < other.name { (one.name, other.name) } else { (other.name, one.name) };
        seen.insert(names)
    });
    // Every second one, so that each kind of change is among them.
    let pairs: Vec<(&Change, &Change)> = fresh.step_by(2).take(PAIRS).collect();
    for (one, other) in pairs {
        pods.push(pod(pods.len(), &[*one, *other]));
    }
    pods
}

/// The pods of the short comparison.
pub(crate) fn few() -> Vec<Pod> {
    const FEW: [&str; 14] = [
        "plain",
        "host-users-false",
        "run-as-group",
        "fs-group",
        "unsafe-sysctl",
        "resources",
        "privileged",
        "probe-exec",
        "hook-exec",
        "env-fields",
        "empty-dir",
        "config-map",
        "init-container",
        "pull-always",
    ];
    all().into_iter().filter(|pod| FEW.contains(&pod.name.as_str())).collect()
}

/// The objects that the pods name.
pub(crate) fn objects() -> Vec<Value> {
    // The registry of the testbed takes any credentials: what counts is that they are sent.
    let credentials = r#"{"auths":{"registry.k8s.io":{"username":"anna","password":"secret"}}}"#;
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {"colour": "green", "size": "7"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
            "stringData": {"password": "hunter2"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"},
            "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": credentials}}),
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "usual"},
            "handler": "runc"}),
    ]
}

fn agree(one: &Change, other: &Change) -> bool {
    let is_alone = |change: &Change| change.about.contains(&ALONE);
    one.name != other.name
        && !is_alone(one)
        && !is_alone(other)
        && !one.about.iter().any(|subject| other.about.contains(subject))
}

fn pod(number: usize, changes: &[Change]) -> Pod {
    let names: Vec<&str> = changes.iter().map(|change| change.name).collect();
    let name = names.join("-with-");
    // It ends on the signal that its container gets, whichever that is.
    let command = "trap 'exit 0' TERM USR1; while :; do sleep 0.2; done";
    let mut main = json!({"name": "main", "image": BUSYBOX, "command": ["sh", "-c", command]});
    let mut spec = json!({"nodeName": NODE_NAME, "automountServiceAccountToken": false, "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 3});
    let mut metadata = json!({"name": name, "namespace": "default"});
    for change in changes {
        merge(&mut spec, parsed(change.spec, number));
        merge(&mut main, parsed(change.container, number));
        merge(&mut metadata, parsed(change.metadata, number));
    }
    let mut containers = json!([main]);
    merge(&mut containers, spec.get("containers").cloned().unwrap_or_else(|| json!([])));
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("containers".to_owned(), containers);
    }
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Pod { name, manifest }
}

fn parsed(text: &str, number: usize) -> Value {
    let port = FIRST_PORT + u64::try_from(number).unwrap_or_default() * 4;
    let text = text
        .replace("\"PORT\"", &port.to_string())
        .replace("\"PORT+1\"", &(port + 1).to_string())
        .replace("IMAGE", BUSYBOX)
        .replace("HOSTDIR", HOST_DIRECTORY)
        .replace("PROFILE", PROFILE);
    serde_json::from_str(&text).unwrap_or_else(|_| Value::Object(Map::new()))
}

/// Objects are merged, lists joined; anything else is replaced.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests;
