//! The status that a pod has in the API as one of the agent's: a kubelet may have written it, before this agent took its
//! node over. Readiness, restart counts and times go on from it.

use agent::{ConditionView, ContainerView, ExitView, InstanceView, PodStatus, StateView, UserView};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, ContainerUser, PodStatus as Live,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::pods::is_terminal;

/// The conditions that an agent of a node sets by itself. Others set `DisruptionTarget`, too.
const OWN: [&str; 5] =
    ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];
/// The condition that the scheduler sets when it binds the pod.
const SCHEDULED: &str = "PodScheduled";

/// The status of a pod in the API. `None` if no agent of a node has written one.
pub(crate) fn status_in_api(status: &Value) -> Option<PodStatus> {
    let live: Live = serde_json::from_value(status.clone()).ok()?;
    let started = millis(live.start_time.as_ref()?);
    let phase = live.phase.unwrap_or_default();
    let stage = if is_terminal(&phase) { "Terminated" } else { "Syncing" };
    let conditions = live.conditions.unwrap_or_default().into_iter();
    let conditions = conditions.filter(|condition| OWN.contains(&condition.type_.as_str()));
    let containers = |list: Option<Vec<ContainerStatus>>| list.into_iter().flatten().map(container).collect();
    Some(PodStatus {
        stage: stage.to_owned(),
        phase,
        reason: live.reason,
        message: live.message,
        started,
        ips: live.pod_ips.unwrap_or_default().into_iter().map(|one| one.ip).collect(),
        conditions: conditions
            .map(|condition| ConditionView {
                kind: condition.type_,
                status: condition.status,
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.unwrap_or_default(),
                since: condition.last_transition_time.as_ref().map(millis).unwrap_or_default(),
            })
            .collect(),
        init: containers(live.init_container_statuses),
        containers: containers(live.container_statuses),
        ephemeral: containers(live.ephemeral_container_statuses),
        generation: status.get("observedGeneration").and_then(Value::as_i64),
        resources: None,
    })
}

/// When the last change was that a status tells of, in seconds since 1970: statuses in the API have no more precise times.
pub(super) fn last_change(status: &PodStatus) -> u64 {
    let conditions = status.conditions.iter().filter(|condition| condition.kind != SCHEDULED);
    let conditions = conditions.map(|condition| condition.since);
    let containers = status.all_containers().flat_map(|container| {
        let state = match &container.state {
            StateView::Waiting { .. } => 0,
            StateView::Running { since } => *since,
            StateView::Terminated(exit) => exit.finished,
        };
        [state, container.last.as_ref().map_or(0, |exit| exit.finished)]
    });
    conditions.chain(containers).max().unwrap_or(0) / 1000
}

fn millis(time: &Time) -> u64 {
    u64::try_from(time.0.as_millisecond()).unwrap_or(0)
}

fn container(status: ContainerStatus) -> ContainerView {
    let last = status.last_state.and_then(|state| state.terminated);
    let state = state(status.state.unwrap_or_default());
    let current = status.container_id.as_deref().and_then(runtime_id);
    let (image, image_id, user) = (status.image, status.image_id, status.user.and_then(user));
    ContainerView {
        name: status.name,
        previous_id: last
            .as_ref()
            .and_then(|exit| exit.container_id.as_deref())
            .and_then(runtime_id)
            .filter(|id| Some(id) != current.as_ref()),
        last: last.map(exit),
        state,
        ready: status.ready,
        started: status.started == Some(true),
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
        instance: current.map(|id| InstanceView { id, image, image_id, user }),
    }
}

fn state(state: ContainerState) -> StateView {
    if let Some(ended) = state.terminated {
        return StateView::Terminated(exit(ended));
    }
    if let Some(running) = state.running {
        return StateView::Running { since: running.started_at.as_ref().map(millis).unwrap_or_default() };
    }
    let waiting = state.waiting.unwrap_or_default();
    StateView::Waiting {
        reason: waiting.reason.unwrap_or_default(),
        message: waiting.message.unwrap_or_default(),
    }
}

fn exit(ended: ContainerStateTerminated) -> ExitView {
    ExitView {
        code: ended.exit_code,
        reason: ended.reason.unwrap_or_default(),
        message: ended.message.unwrap_or_default(),
        started: ended.started_at.as_ref().map(millis).filter(|time| *time > 0),
        finished: ended.finished_at.as_ref().map(millis).unwrap_or_default(),
    }
}

/// The runtime's ID in `containerd://ID`.
fn runtime_id(text: &str) -> Option<String> {
    text.split_once("://").map(|(_, id)| id.to_owned()).filter(|id| !id.is_empty())
}

fn user(user: ContainerUser) -> Option<UserView> {
    let user = user.linux?;
    Some(UserView {
        uid: user.uid,
        gid: user.gid,
        supplemental_groups: user.supplemental_groups.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn in_api() -> Value {
        json!({
            "phase": "Running", "startTime": "2026-11-18T09:00:00Z", "observedGeneration": 3,
            "podIP": "10.244.0.7", "podIPs": [{"ip": "10.244.0.7"}],
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-18T08:59:59Z"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-18T09:00:05Z"},
                {"type": "example.com/gate", "status": "True", "lastTransitionTime": "2026-11-18T12:00:00Z"},
                {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-11-18T12:00:00Z"}
            ],
            "containerStatuses": [{
                "name": "app", "image": "busybox:1", "imageID": "sha256:1", "containerID": "containerd://abc",
                "ready": true, "started": true, "restartCount": 2,
                "state": {"running": {"startedAt": "2026-11-18T09:00:04Z"}},
                "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-11-18T09:00:03Z",
                    "startedAt": "2026-11-18T09:00:01Z", "containerID": "containerd://old"}},
                "user": {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0, 10]}}
            }],
            "initContainerStatuses": [{
                "name": "first", "image": "busybox:1", "imageID": "sha256:1", "ready": true, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-11-18T09:00:00Z"}}
            }]
        })
    }

    #[test]
    fn a_status_that_a_kubelet_has_written_is_gone_on_from() {
        let status = status_in_api(&in_api()).unwrap();
        assert_eq!((status.phase.as_str(), status.stage.as_str()), ("Running", "Syncing"));
        assert_eq!((status.started, status.generation), (1_794_992_400_000, Some(3)));
        assert_eq!(status.ips, ["10.244.0.7"]);
        let kinds: Vec<&str> = status.conditions.iter().map(|condition| condition.kind.as_str()).collect();
        assert_eq!(kinds, ["PodScheduled", "Ready"]);
        let app = &status.containers[0];
        assert!(app.ready && app.started && app.restarts == 2, "{app:?}");
        assert_eq!(app.state, StateView::Running { since: 1_794_992_404_000 });
        assert_eq!(app.last.as_ref().map(|exit| exit.code), Some(3));
        let instance = app.instance.as_ref().unwrap();
        assert_eq!((instance.id.as_str(), app.previous_id.as_deref()), ("abc", Some("old")));
        assert!(matches!(&status.init[0].state, StateView::Terminated(exit) if exit.code == 0));
        assert_eq!(last_change(&status), 1_794_992_405, "conditions of others do not count");
    }

    #[test]
    fn a_pod_that_no_agent_has_seen_has_no_status_and_one_that_is_over_stays_so() {
        for status in [Value::Null, json!({}), json!({"phase": "Pending", "conditions": []})] {
            assert_eq!(status_in_api(&status), None, "{status}");
        }
        let mut over = in_api();
        over["phase"] = json!("Succeeded");
        assert!(status_in_api(&over).unwrap().is_terminated());
    }
}
