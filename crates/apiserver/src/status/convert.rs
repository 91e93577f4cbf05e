//! The API's status of a pod from the agent's.

use std::net::IpAddr;

use agent::PodStatus;
use serde_json::{Map, Value, json};
use types::time::stamp;

use crate::pods::is_terminal;
use crate::status::containers::Containers;
use crate::status::resources;

/// The order of the agent's conditions in a status, as the kubelet has it.
const ORDER: [&str; 6] = [
    "DisruptionTarget",
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// What statuses say of the node.
#[derive(Debug, Clone, Default)]
pub struct StatusNode {
    /// The node's internal addresses, the primary one first; at most one of each family is reported.
    pub addresses: Vec<String>,
    /// The CRI runtime's name, which precedes the IDs of containers: `containerd`.
    pub runtime: String,
    /// Whether the runtime's default handler can make mounts read-only with all mounts below them.
    pub recursive_read_only: bool,
}

/// How far the agent has cleaned up after a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanUp {
    /// The pod runs, or not all of it is gone.
    Pending,
    /// No container runs, volumes and cgroups are gone.
    Finished,
}

/// The status that the API is to have of a pod. `live` is the pod in the API. A key whose value is null is to be absent;
/// keys that are missing stay as they are.
#[must_use]
pub fn pod_status(
    status: &PodStatus,
    live: &Value,
    node: &StatusNode,
    clean_up: CleanUp,
) -> Map<String, Value> {
    let before = live.get("status").unwrap_or(&Value::Null);
    let outcome = Outcome::of(status, live, clean_up);
    let text = |text: &Option<String>| text.as_ref().map_or(Value::Null, |text| json!(text));
    let mut desired = Map::new();
    desired.insert("phase".into(), json!(outcome.phase));
    desired.insert("reason".into(), text(&outcome.reason));
    desired.insert("message".into(), text(&outcome.message));
    let start = before.get("startTime").and_then(Value::as_str).map(str::to_owned);
    desired.insert("startTime".into(), json!(start.unwrap_or_else(|| stamp(status.started / 1000))));
    addresses(&mut desired, "hostIP", &one_of_each_family(&node.addresses, &node.addresses));
    addresses(&mut desired, "podIP", &one_of_each_family(&status.ips, &node.addresses));
    let generation = observed(status, live).max(before.get("observedGeneration").and_then(Value::as_i64));
    if let Some(generation) = generation {
        desired.insert("observedGeneration".into(), json!(generation));
    }
    let mut all =
        status.resources.as_ref().map(|found| resources::conditions(found, live)).unwrap_or_default();
    all.extend(conditions(status, live, &outcome));
    desired.insert("conditions".into(), json!(all));
    if let Some(found) = &status.resources {
        desired.extend(resources::of_pod(found));
    }
    let spec = live.get("spec").unwrap_or(&Value::Null);
    // Containers that never started have nothing to end.
    let clean_up = if status.is_up() { clean_up } else { CleanUp::Pending };
    let count = status.all_containers().count();
    let resources = status.resources.as_ref().map(|found| &found.containers);
    let containers = Containers { node, spec, count, clean_up, resources };
    if !status.init.is_empty() {
        let mut init = containers.statuses("initContainers", &status.init);
        init.sort_by_key(|one| position(spec, one));
        desired.insert("initContainerStatuses".into(), json!(init));
    }
    if !status.containers.is_empty() {
        let mut regular = containers.statuses("containers", &status.containers);
        regular.sort_by(|a, b| name(a).cmp(name(b)));
        desired.insert("containerStatuses".into(), json!(regular));
    }
    if !status.ephemeral.is_empty() {
        let mut added = containers.statuses("ephemeralContainers", &status.ephemeral);
        added.sort_by(|a, b| name(a).cmp(name(b)));
        desired.insert("ephemeralContainerStatuses".into(), json!(added));
    }
    desired
}

/// The generation of the spec that the status is about. A deletion is a generation of its own, which a pod that is being
/// stopped has acted on.
fn observed(status: &PodStatus, live: &Value) -> Option<i64> {
    let metadata = live.get("metadata").unwrap_or(&Value::Null);
    let is_deleted = metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null());
    let newest = metadata.get("generation").and_then(Value::as_i64);
    status.generation.max(newest.filter(|_| is_deleted && status.is_ending()))
}

/// The containers that have ended for good in the API and would run again in the agent's status. Such a status must not
/// be sent: it is older than the one in the API.
pub(super) fn revived(live: &Value, desired: &Map<String, Value>) -> Vec<String> {
    let spec = live.get("spec").unwrap_or(&Value::Null);
    let phase = live.get("status").map(|status| text(status, "phase")).unwrap_or_default();
    let is_over = is_terminal(phase);
    let lists = [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", "ephemeralContainers"),
    ];
    let mut found = Vec::new();
    for (statuses, list) in lists {
        let before = live.get("status").and_then(|status| status.get(statuses));
        for one in before.and_then(Value::as_array).into_iter().flatten() {
            let Some(end) = one.get("state").and_then(|state| state.get("terminated")) else { continue };
            let now = desired.get(statuses).and_then(Value::as_array).into_iter().flatten();
            let now = now.into_iter().find(|now| name(now) == name(one));
            let runs = now.is_some_and(|now| now.get("state").and_then(|s| s.get("terminated")).is_none());
            if runs && (is_over || !is_restarted(spec, list, name(one), end)) {
                found.push(name(one).to_owned());
            }
        }
    }
    found
}

/// Whether a container that ended like this is started again.
fn is_restarted(spec: &Value, list: &str, container: &str, end: &Value) -> bool {
    let mut all = spec.get(list).and_then(Value::as_array).into_iter().flatten();
    let Some(own) = all.find(|one| name(one) == container) else { return true };
    if list == "ephemeralContainers" {
        return false;
    }
    let is_succeeded = end.get("exitCode").and_then(Value::as_i64) == Some(0);
    let policy = own.get("restartPolicy").or_else(|| spec.get("restartPolicy")).and_then(Value::as_str);
    if own.get("restartPolicyRules").is_some() {
        return true;
    }
    match policy {
        Some("Never") => false,
        Some("OnFailure") => !is_succeeded,
        // A plain init container of a pod that restarts always is done when it has succeeded; it runs again when the
        // pod's sandbox is replaced.
        _ => true,
    }
}

/// The phase of a pod with its reason and message.
#[derive(Debug, PartialEq)]
struct Outcome {
    phase: String,
    reason: Option<String>,
    message: Option<String>,
}

impl Outcome {
    fn of(status: &PodStatus, live: &Value, clean_up: CleanUp) -> Self {
        let before = live.get("status").unwrap_or(&Value::Null);
        let text = |key: &str| before.get(key).and_then(Value::as_str).map(str::to_owned);
        let known = Self {
            phase: text("phase").unwrap_or_else(|| "Pending".to_owned()),
            reason: text("reason"),
            message: text("message"),
        };
        // What has ended for good stays so.
        if is_terminal(&known.phase) {
            return known;
        }
        let ours = Self {
            phase: status.phase.clone(),
            reason: status.reason.clone(),
            // Without a reason it says why the pod does not start, which is an event in the API.
            message: status.message.clone().filter(|_| status.reason.is_some()),
        };
        if is_terminal(&ours.phase) {
            // Other pods may take the place of this one as soon as the API says that it has ended.
            let is_over = status.is_terminated() || clean_up == CleanUp::Finished;
            return if is_over { ours } else { known };
        }
        let annotations = live.get("metadata").and_then(|metadata| metadata.get("annotations"));
        let is_mirror = annotations.is_some_and(|all| all.get(crate::pods::MIRROR).is_some());
        if clean_up == CleanUp::Finished && !is_mirror {
            return Self { phase: "Failed".to_owned(), ..ours };
        }
        ours
    }
}

fn conditions(status: &PodStatus, live: &Value, outcome: &Outcome) -> Vec<Value> {
    let before = live.get("status").unwrap_or(&Value::Null);
    let observed = observed(status, live);
    let is_over = is_terminal(&outcome.phase);
    let ended = if outcome.phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
    let mut all = Vec::new();
    for kind in ORDER {
        let Some(condition) = status.conditions.iter().find(|condition| condition.kind == kind) else {
            continue;
        };
        // An eviction is reported together with the phase that it leads to.
        if kind == "DisruptionTarget" && !is_over {
            continue;
        }
        let is_forced = is_over && ["Ready", "ContainersReady"].contains(&kind);
        let (state, reason, message) = if is_forced {
            ("False", ended, "")
        } else {
            (condition.status.as_str(), condition.reason.as_str(), condition.message.as_str())
        };
        let known = before.get("conditions").and_then(Value::as_array).into_iter().flatten();
        let known = known.into_iter().find(|known| text(known, "type") == kind);
        let since = known.filter(|known| text(known, "status") == state);
        let since = since.and_then(|known| known.get("lastTransitionTime")).filter(|time| !time.is_null());
        let generation = known.and_then(|known| known.get("observedGeneration")).and_then(Value::as_i64);
        let or_null = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
        all.push(json!({
            "type": kind,
            "status": state,
            "reason": or_null(reason),
            "message": or_null(message),
            "observedGeneration": observed.max(generation),
            "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(stamp(condition.since / 1000))),
        }));
    }
    all
}

/// Adds a list of addresses, and its first as a field of its own. Addresses that were known stay when there are none.
fn addresses(desired: &mut Map<String, Value>, key: &str, addresses: &[String]) {
    if let Some(first) = addresses.first() {
        let list: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        desired.insert(key.to_owned(), json!(first));
        desired.insert(format!("{key}s"), json!(list));
    }
}

/// The first address of the node's primary family, then the first of the other one.
fn one_of_each_family(addresses: &[String], node: &[String]) -> Vec<String> {
    let parsed: Vec<IpAddr> = addresses.iter().filter_map(|text| text.parse().ok()).collect();
    let primary = node.iter().find_map(|text| text.parse::<IpAddr>().ok());
    let is_primary = |ip: &&IpAddr| primary.is_none_or(|primary| primary.is_ipv4() == ip.is_ipv4());
    let first = parsed.iter().find(is_primary).or(parsed.first());
    let second = first.and_then(|first| parsed.iter().find(|ip| ip.is_ipv4() != first.is_ipv4()));
    first.into_iter().chain(second).map(ToString::to_string).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn name(value: &Value) -> &str {
    text(value, "name")
}

/// The place of an init container in the spec.
fn position(spec: &Value, status: &Value) -> Option<usize> {
    let init = spec.get("initContainers").and_then(Value::as_array)?;
    init.iter().position(|one| name(one) == name(status))
}
