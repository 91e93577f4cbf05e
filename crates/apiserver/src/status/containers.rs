//! Statuses of containers as the API has them.

use std::collections::BTreeMap;

use agent::{ContainerResourcesView, ContainerView, ExitView, InstanceView, StateView};
use serde_json::{Map, Value, json};
use types::time::stamp;

use crate::status::convert::{CleanUp, StatusNode};
use crate::status::resources;

/// The bytes of all termination messages of a pod.
const MESSAGE_BYTES: usize = 12288;
/// How a container ended whose end was not seen, as the kubelet says it.
const LOST_CODE: i32 = 137;
const LOST_REASON: &str = "ContainerStatusUnknown";
const LOST_MESSAGE: &str = "The container could not be located when the pod was terminated";

/// What all containers of a pod have in common.
pub(super) struct Containers<'a> {
    pub(super) node: &'a StatusNode,
    /// The pod's spec in the API.
    pub(super) spec: &'a Value,
    /// How many containers the pod has.
    pub(super) count: usize,
    pub(super) clean_up: CleanUp,
    /// Their resources by name, as far as the agent has reported them.
    pub(super) resources: Option<&'a BTreeMap<String, ContainerResourcesView>>,
}

impl Containers<'_> {
    /// The statuses of the containers in a list of the spec: `containers`, `initContainers` or `ephemeralContainers`.
    pub(super) fn statuses(&self, list: &str, views: &[ContainerView]) -> Vec<Value> {
        let is_ephemeral = list == "ephemeralContainers";
        let status = |view: &ContainerView| {
            let mut status = self.status(self.container(list, &view.name), view);
            // It has no probes: the API says neither that it has come up nor that it is ready.
            if is_ephemeral {
                status.remove("started");
                status.insert("ready".into(), json!(false));
            }
            Value::Object(status)
        };
        views.iter().map(status).collect()
    }

    fn container(&self, list: &str, name: &str) -> &Value {
        let mut all = self.spec.get(list).and_then(Value::as_array).into_iter().flatten();
        all.find(|one| one.get("name").and_then(Value::as_str) == Some(name)).unwrap_or(&Value::Null)
    }

    fn status(&self, spec: &Value, view: &ContainerView) -> Map<String, Value> {
        let instance = view.instance.as_ref();
        let id = instance.map(|instance| self.id(&instance.id));
        let named = spec.get("image").and_then(Value::as_str).unwrap_or_default();
        let image = instance.map(|instance| instance.image.as_str()).filter(|image| !image.is_empty());
        let is_lost = self.clean_up == CleanUp::Finished && !matches!(view.state, StateView::Terminated(_));
        let state = if is_lost { lost() } else { self.state(&view.state, id.as_deref()) };
        // While the container waits, its newest instance is the one that ended last.
        let is_waiting = matches!(view.state, StateView::Waiting { .. });
        let previous = view.previous_id.as_ref().map(|id| self.id(id));
        let last_id = if is_waiting { id.clone() } else { previous };
        let last = view.last.as_ref().map(|exit| json!({"terminated": self.exit(exit, last_id.as_deref())}));
        let mut status = Map::new();
        status.insert("name".into(), json!(view.name));
        status.insert("state".into(), state);
        status.insert("lastState".into(), last.unwrap_or_else(|| json!({})));
        status.insert("ready".into(), json!(view.ready && !is_lost));
        status.insert("started".into(), json!(view.started && !is_lost));
        status.insert("restartCount".into(), json!(view.restarts));
        status.insert("image".into(), json!(image.unwrap_or(named)));
        status.insert("imageID".into(), json!(instance.map_or("", |instance| &instance.image_id)));
        if let Some(id) = id {
            status.insert("containerID".into(), json!(id));
        }
        if let Some(instance) = instance {
            let resources = self.resources.and_then(|resources| resources.get(&view.name));
            status.extend(of_instance(spec, instance, resources));
        }
        let mounts = self.volume_mounts(spec);
        if !mounts.is_empty() {
            status.insert("volumeMounts".into(), json!(mounts));
        }
        status
    }

    /// The mounts of a container. Whether an `IfPossible` mount is recursively read-only depends on the runtime handler; of
    /// another handler than the default it is not said.
    fn volume_mounts(&self, spec: &Value) -> Vec<Value> {
        let is_default = self.spec.get("runtimeClassName").is_none_or(Value::is_null);
        let possible =
            is_default.then_some(if self.node.recursive_read_only { "Enabled" } else { "Disabled" });
        let mounts = spec.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
        let status = |mount: &Value| {
            let mut status = Map::new();
            for key in ["name", "mountPath"] {
                status.insert(key.to_owned(), mount.get(key).cloned().unwrap_or_default());
            }
            if mount.get("readOnly").and_then(Value::as_bool) == Some(true) {
                status.insert("readOnly".into(), json!(true));
                let recursive = match mount.get("recursiveReadOnly").and_then(Value::as_str) {
                    Some("IfPossible") => possible,
                    other => Some(other.unwrap_or("Disabled")),
                };
                if let Some(recursive) = recursive {
                    status.insert("recursiveReadOnly".into(), json!(recursive));
                }
            }
            Value::Object(status)
        };
        mounts.map(status).collect()
    }

    fn id(&self, id: &str) -> String {
        format!("{}://{id}", self.node.runtime)
    }

    fn state(&self, state: &StateView, id: Option<&str>) -> Value {
        match state {
            StateView::Waiting { reason, message } => {
                json!({"waiting": with_texts(Map::new(), &[("reason", reason), ("message", message)])})
            }
            StateView::Running { since } => json!({"running": {"startedAt": stamp(since / 1000)}}),
            StateView::Terminated(exit) => json!({"terminated": self.exit(exit, id)}),
        }
    }

    fn exit(&self, exit: &ExitView, id: Option<&str>) -> Value {
        let message = cut(&exit.message, MESSAGE_BYTES / self.count.max(1));
        let mut end = Map::new();
        end.insert("exitCode".into(), json!(exit.code));
        if let Some(started) = exit.started {
            end.insert("startedAt".into(), json!(stamp(started / 1000)));
        }
        end.insert("finishedAt".into(), json!(stamp(exit.finished / 1000)));
        let texts =
            [("reason", exit.reason.as_str()), ("message", message), ("containerID", id.unwrap_or_default())];
        Value::Object(with_texts(end, &texts))
    }
}

/// The end of a container whose end was not seen.
pub(super) fn lost() -> Value {
    json!({"terminated": {"exitCode": LOST_CODE, "reason": LOST_REASON, "message": LOST_MESSAGE}})
}

/// Adds the texts that are not empty.
fn with_texts(mut map: Map<String, Value>, texts: &[(&str, impl AsRef<str>)]) -> Map<String, Value> {
    for (key, text) in texts {
        if !text.as_ref().is_empty() {
            map.insert((*key).to_owned(), json!(text.as_ref()));
        }
    }
    map
}

/// At most so many bytes of a text.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// What the API says of a container that is there: its user, and its resources. Where the agent has reported none of them, they
/// are those of the spec.
fn of_instance(
    spec: &Value,
    instance: &InstanceView,
    resources: Option<&ContainerResourcesView>,
) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(user) = &instance.user {
        let groups = Some(&user.supplemental_groups).filter(|groups| !groups.is_empty());
        let linux = json!({"uid": user.uid, "gid": user.gid, "supplementalGroups": groups});
        fields.insert("user".into(), json!({"linux": linux}));
    }
    if let Some(resources) = resources {
        fields.extend(resources::of_container(resources));
        return fields;
    }
    let asked = |key: &str| spec.get("resources").and_then(|resources| resources.get(key)).cloned();
    let of_spec = ["limits", "requests"].into_iter().filter_map(|key| Some((key.to_owned(), asked(key)?)));
    fields.insert("resources".into(), Value::Object(of_spec.collect()));
    if let Some(requests) = asked("requests") {
        fields.insert("allocatedResources".into(), requests);
    }
    fields
}
