//! Changes to objects, as strategic merge patches.

use plan::Intent;
use serde_json::{Map, Value, json};

use crate::report::{Apply, ObjectRef, Patch, Target};

const POLICY: [&str; 2] = ["securityContext", "seLinuxChangePolicy"];

/// One field that is to change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edit {
    /// `hostUsers: false`.
    OwnUsers,
    /// A field of the pod's spec goes: `hostPID`.
    Without(&'static str),
    /// An annotation of the pod goes.
    WithoutAnnotation(&'static str),
    /// The pod's level.
    Level(String),
    /// The level in a container's own options, which replace the pod's.
    ContainerLevel { list: &'static str, container: String, level: String },
    /// `seLinuxChangePolicy: Recursive`.
    Recursive,
    /// `seLinuxChangePolicy` goes.
    WithoutPolicy,
}

/// The object that is to change.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) object: &'a ObjectRef,
    /// What stands before a field of its pods' spec; `spec.template.spec.`
    pub(crate) root: &'a str,
    /// Whether the object itself was seen.
    pub(crate) is_seen: bool,
}

impl Subject<'_> {
    pub(crate) fn patch(&self, edits: &[Edit], gives_up: Vec<String>) -> Patch {
        let target =
            Target { api_version: api_version(&self.object.kind).to_owned(), object: self.object.clone() };
        let apply = match self.object.kind.as_str() {
            _ if !self.is_seen && self.object.kind != "Pod" => Apply::AtItsSource,
            "Pod" | "Job" => Apply::Recreate,
            _ => Apply::Patch,
        };
        let command = (apply == Apply::Patch).then(|| command(self.object));
        Patch { target, body: self.body(edits), fields: edits.len(), gives_up, apply, command }
    }

    fn body(&self, edits: &[Edit]) -> Value {
        let steps: Vec<&str> = self.root.trim_end_matches('.').split('.').collect();
        let above = steps.split_last().map_or(&[][..], |(_, above)| above);
        let mut body = json!({});
        for edit in edits {
            let of = |steps: &[&str], rest: &[&str]| -> Vec<String> {
                steps.iter().chain(rest).map(|s| (*s).to_owned()).collect()
            };
            match edit {
                Edit::OwnUsers => set(&mut body, &of(&steps, &["hostUsers"]), json!(false)),
                Edit::Without(field) => set(&mut body, &of(&steps, &[field]), Value::Null),
                Edit::WithoutAnnotation(name) => {
                    set(&mut body, &of(above, &["metadata", "annotations", name]), Value::Null);
                }
                Edit::Level(level) => {
                    let path = of(&steps, &["securityContext", "seLinuxOptions", "level"]);
                    set(&mut body, &path, json!(level));
                }
                Edit::Recursive => set(&mut body, &of(&steps, &POLICY), json!("Recursive")),
                Edit::WithoutPolicy => set(&mut body, &of(&steps, &POLICY), Value::Null),
                Edit::ContainerLevel { list, container, level } => {
                    let options = json!({"seLinuxOptions": {"level": level}});
                    let item = json!({"name": container, "securityContext": options});
                    push(&mut body, &of(&steps, &[list]), item);
                }
            }
        }
        body
    }
}

/// The group and version that a kind is served by; empty for kinds that are not Kubernetes' own.
fn api_version(kind: &str) -> &'static str {
    match kind {
        "Pod" => "v1",
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => "apps/v1",
        "Job" | "CronJob" => "batch/v1",
        _ => "",
    }
}

fn command(object: &ObjectRef) -> String {
    let ObjectRef { kind, namespace, name } = object;
    format!("kubectl patch {} {name} -n {namespace} --patch-file FILE", kind.to_lowercase())
}

/// The object at a path, made where it is not there.
fn at<'a>(body: &'a mut Value, path: &[String]) -> &'a mut Value {
    let mut place = body;
    for step in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        // A null that was just replaced by an object has entries.
        let Value::Object(entries) = place else { return place };
        place = entries.entry(step.clone()).or_insert_with(|| Value::Object(Map::new()));
    }
    place
}

fn set(body: &mut Value, path: &[String], value: Value) {
    *at(body, path) = value;
}

fn push(body: &mut Value, path: &[String], item: Value) {
    let place = at(body, path);
    match place {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

/// What takes the host's namespaces from a pod, what it then gives up, and what it then is.
pub(crate) fn without_host(intent: &Intent) -> (Vec<Edit>, Vec<String>, Intent) {
    let mut changed = intent.clone();
    let (mut edits, mut gives_up) = (Vec::new(), Vec::new());
    let mut without = |wanted: &mut bool, field: &'static str, what: &str| {
        if std::mem::take(wanted) {
            edits.push(Edit::Without(field));
            gives_up.push(format!("the host's {what}"));
        }
    };
    without(&mut changed.host.network, "hostNetwork", "network");
    without(&mut changed.host.pid, "hostPID", "processes");
    without(&mut changed.host.ipc, "hostIPC", "IPC");
    (edits, gives_up, changed)
}
