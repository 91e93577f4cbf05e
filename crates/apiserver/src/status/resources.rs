//! Resources and resizes in the API's status of a pod.

use agent::{ContainerResourcesView, ResizeView, ResourcesStatus, ResourcesView, WrittenAmounts};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};
use types::time::stamp;

/// The condition of a pod whose spec asks for other resources than it was given.
pub(crate) const PENDING: &str = "PodResizePending";
/// The condition of a pod that does not have the resources yet that it was given.
const IN_PROGRESS: &str = "PodResizeInProgress";
/// The conditions that are absent while nothing is resized.
pub(super) const CONDITIONS: [&str; 2] = [PENDING, IN_PROGRESS];

/// Resources of the pod as a whole, as fields of its status.
pub(super) const FIELDS: [&str; 2] = ["resources", "allocatedResources"];

/// The conditions of a pod that is resized, or asks for it.
pub(super) fn conditions(resources: &ResourcesStatus, live: &Value) -> Vec<Value> {
    let both = [(PENDING, &resources.pending), (IN_PROGRESS, &resources.resize)];
    both.into_iter().filter_map(|(kind, view)| Some(condition(kind, view.as_ref()?, live))).collect()
}

/// The time of a condition changes with its reason: its status is always the same.
fn condition(kind: &str, view: &ResizeView, live: &Value) -> Value {
    let known = find(live, kind).filter(|known| text(known, "reason") == view.reason);
    let since = known.and_then(|known| known.get("lastTransitionTime")).filter(|time| !time.is_null());
    let or_null = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    json!({
        "type": kind,
        "status": "True",
        "reason": or_null(&view.reason),
        "message": or_null(&view.message),
        "observedGeneration": view.generation,
        "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(stamp(view.since / 1000))),
    })
}

/// A pending resize as the API has it from an earlier process; `None` if it has none. `status` is the pod's.
pub(crate) fn pending_of(status: &Value) -> Option<ResizeView> {
    let known = find(&json!({"status": status}), PENDING).cloned()?;
    let since = known.get("lastTransitionTime").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let since = since.map_or(0, |since: Timestamp| u64::try_from(since.as_millisecond()).unwrap_or(0));
    Some(ResizeView {
        generation: known.get("observedGeneration").and_then(Value::as_i64),
        reason: text(&known, "reason").to_owned(),
        message: text(&known, "message").to_owned(),
        since,
    })
}

fn find<'a>(live: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = live.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    conditions.into_iter().flatten().find(|known| text(known, "type") == kind)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The resources of the pod as a whole; none of a pod that asks for none.
pub(super) fn of_pod(resources: &ResourcesStatus) -> Map<String, Value> {
    let mut fields = Map::new();
    let of_pod = view(&resources.pod);
    if resources.allocated.is_empty() && of_pod == json!({}) {
        return fields;
    }
    fields.insert("resources".into(), of_pod);
    fields.extend(list("allocatedResources", Some(&resources.allocated)));
    fields
}

/// The resources of a container.
pub(super) fn of_container(resources: &ContainerResourcesView) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("resources".into(), view(&resources.in_effect));
    fields.extend(list("allocatedResources", resources.allocated.as_ref()));
    fields
}

fn view(view: &ResourcesView) -> Value {
    let both = [("limits", &view.limits), ("requests", &view.requests)];
    let fields = both.into_iter().filter_map(|(key, amounts)| list(key, amounts.as_ref()));
    Value::Object(fields.collect())
}

/// A list of amounts; none if it is empty, which the API server leaves out.
fn list(key: &str, amounts: Option<&WrittenAmounts>) -> Option<(String, Value)> {
    let amounts = amounts.filter(|amounts| !amounts.is_empty())?;
    Some((key.to_owned(), json!(amounts)))
}
