//! The pods of this node, as `ps` and `run` show them: a view for programs, which is a contract, and a table.

use agent::{ContainerView, PodStatus, StateView, Stored};
use ids::IdMapping;
use serde::Serialize;

use types::{reason, time};

use crate::table;

/// A pod for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    namespace: String,
    name: String,
    uid: String,
    phase: String,
    /// Whether a supervisor process manages it.
    tended: bool,
    user_namespace: String,
    uid_mappings: Vec<IdMapping>,
    gid_mappings: Vec<IdMapping>,
    addresses: Vec<String>,
    runtime_endpoint: String,
    status: Option<PodStatus>,
}

impl From<&Stored> for PodView {
    fn from(pod: &Stored) -> Self {
        let record = &pod.record;
        Self {
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            uid: record.uid.as_str().to_owned(),
            phase: phase(pod),
            tended: pod.is_managed,
            user_namespace: record.mode.clone(),
            uid_mappings: record.uids.clone(),
            gid_mappings: record.gids.clone(),
            addresses: pod.status.as_ref().map(|s| s.ips.clone()).unwrap_or_default(),
            runtime_endpoint: record.endpoint.clone(),
            status: pod.status.clone(),
        }
    }
}

fn phase(pod: &Stored) -> String {
    pod.status.as_ref().map_or_else(|| "Pending".to_owned(), |status| status.phase.clone())
}

/// The host IDs of a pod, as text.
#[must_use]
pub fn ids(lines: &[IdMapping]) -> String {
    match lines.first() {
        Some(line) => line.host().to_string(),
        None => "the host's".to_owned(),
    }
}

/// Why a pod is not where it should be, in one word or two.
fn state(pod: &Stored) -> String {
    let Some(status) = &pod.status else { return "Pending".to_owned() };
    let waits = status.init.iter().chain(&status.containers).find_map(|c| match &c.state {
        StateView::Waiting { reason, .. }
            if reason != reason::POD_INITIALIZING && reason != reason::CONTAINER_CREATING =>
        {
            Some(reason.clone())
        }
        _ => None,
    });
    let shown = waits.unwrap_or_else(|| status.phase.clone());
    let is_left = !pod.is_managed && !status.is_terminated();
    // The status is of the time when its supervisor ended.
    if is_left { format!("was {shown}, no supervisor") } else { shown }
}

/// The containers that READY counts, as `kubectl get pods` does: regular ones and sidecars.
fn counted(pod: &Stored) -> impl Iterator<Item = &ContainerView> {
    let init = pod.record.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let status = pod.status.as_ref();
    let init = status.into_iter().flat_map(|status| &status.init);
    let init = init.filter(move |container| sidecars.contains(&container.name.as_str()));
    init.chain(status.into_iter().flat_map(|status| &status.containers))
}

/// Pods as a table, with their ages at `now`.
#[must_use]
pub fn pods(pods: &[Stored], now: u64) -> String {
    let rows: Vec<[String; 6]> = pods
        .iter()
        .map(|pod| {
            let (ready, all) = counted(pod).fold((0, 0), |(r, n), c| (r + u32::from(c.ready), n + 1));
            let since = pod.status.as_ref().map_or(0, |s| s.started / 1000);
            let addresses = pod.status.as_ref().map(|s| s.ips.join(",")).unwrap_or_default();
            [
                format!("{}/{}", pod.record.namespace, pod.record.name),
                format!("{ready}/{all}"),
                state(pod),
                ids(&pod.record.uids),
                addresses,
                if since == 0 { String::new() } else { time::age(since, now) },
            ]
        })
        .collect();
    table(["POD", "READY", "STATE", "HOST IDS", "ADDRESS", "AGE"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored pod with an init container, a sidecar and a regular container.
    fn stored() -> Stored {
        let record = serde_json::json!({
            "version": 1, "uid": "u-1", "namespace": "shop", "name": "web", "hash": "0", "endpoint": "unix:///x",
            "handler": "", "mode": "host", "uids": [], "gids": [], "process": 1,
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
                "initContainers": [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}],
                "containers": [{"name": "app"}],
            }},
        });
        let container = |name: &str, ready: bool| {
            serde_json::json!({"name": name, "state": {"running": {"since": 1}}, "last": null, "ready": ready,
                "started": true, "restarts": 0})
        };
        let status = serde_json::json!({
            "phase": "Running", "stage": "Syncing", "reason": null, "message": null, "started": 1, "ips": [],
            "conditions": [], "init": [container("init", true), container("sidecar", true)],
            "containers": [container("app", false)],
        });
        Stored {
            record: serde_json::from_value(record).unwrap(),
            status: Some(serde_json::from_value(status).unwrap()),
            is_managed: true,
            logs: "/logs".into(),
            files: "/files".into(),
        }
    }

    #[test]
    fn ready_counts_sidecars_and_no_init_containers() {
        let table = pods(&[stored()], 61);
        assert!(table.contains("shop/web  1/2    Running"), "{table}");
    }
}
