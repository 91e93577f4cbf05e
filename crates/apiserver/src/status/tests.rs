use agent::{
    ConditionView, ContainerResourcesView, ContainerView, ExitView, InstanceView, PodStatus, ResizeView,
    ResourcesStatus, ResourcesView, StateView, UserView,
};
use serde_json::{Map, Value, json};

use super::convert::revived;
use super::{CleanUp, StatusNode, patch, pod_status};

const SINCE: u64 = 1_772_368_205_999;
const STAMP: &str = "2026-03-01T12:30:05Z";

fn container(name: &str, state: StateView) -> ContainerView {
    let (ready, started) = (matches!(state, StateView::Running { .. }), true);
    let user = UserView { uid: 1000, gid: 2000, supplemental_groups: vec![2000, 3000] };
    let instance =
        InstanceView { id: "b".into(), image: "i:1".into(), image_id: "sha256:1".into(), user: Some(user) };
    ContainerView {
        name: name.into(),
        state,
        last: None,
        ready,
        started,
        restarts: 1,
        instance: Some(instance),
        previous_id: Some("a".into()),
    }
}

fn exit(code: i32, message: &str) -> ExitView {
    let reason = if code == 0 { "Completed" } else { "Error" };
    ExitView { code, reason: reason.into(), message: message.into(), started: Some(SINCE), finished: SINCE }
}

fn condition(kind: &str, status: &str) -> ConditionView {
    ConditionView {
        kind: kind.into(),
        status: status.into(),
        reason: String::new(),
        message: String::new(),
        since: SINCE,
    }
}

fn status(phase: &str, containers: Vec<ContainerView>) -> PodStatus {
    PodStatus {
        phase: phase.into(),
        stage: "Syncing".into(),
        reason: None,
        message: None,
        started: SINCE,
        ips: vec!["fd00::7".into(), "10.88.0.7".into(), "10.88.0.8".into()],
        conditions: vec![
            condition("PodScheduled", "True"),
            condition("Ready", "True"),
            condition("DisruptionTarget", "True"),
        ],
        init: vec![],
        containers,
        ephemeral: vec![],
        generation: Some(3),
        resources: None,
    }
}

fn running() -> PodStatus {
    status("Running", vec![container("app", StateView::Running { since: SINCE })])
}

fn live(status: &Value) -> Value {
    json!({"metadata": {"uid": "u-1"}, "spec": {"restartPolicy": "Never", "initContainers": [{"name": "z"}, {"name": "a"}],
        "containers": [{"name": "app", "image": "app:2", "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true},
            {"name": "w", "mountPath": "/w"}, {"name": "v", "mountPath": "/x", "readOnly": true,
                "recursiveReadOnly": "IfPossible"}],
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}, {"name": "b"}],
        "ephemeralContainers": [{"name": "debug"}]}, "status": status})
}

fn converted(status: &PodStatus, live: &Value, clean_up: CleanUp) -> Map<String, Value> {
    let addresses = vec!["10.240.0.10".into()];
    let node = StatusNode { addresses, runtime: "containerd".into(), recursive_read_only: true };
    pod_status(status, live, &node, clean_up)
}

fn desired(status: &PodStatus, known: &Value) -> Map<String, Value> {
    converted(status, &live(known), CleanUp::Pending)
}

/// What the API server has after the patch, as far as these tests need it.
fn applied(known: &Value, patch: &Value) -> Value {
    let mut after = known.clone();
    for (key, value) in patch["status"].as_object().unwrap() {
        if !key.starts_with('$') {
            let kept = |entry: &&Value| entry.get("$patch").is_none();
            let list = value.as_array().map(|list| list.iter().filter(kept).cloned().collect());
            let mut value = list.map_or(value.clone(), Value::Array);
            value.as_object_mut().map(|fields| fields.remove("$patch"));
            after["status"][key] = value;
        }
    }
    after
}

#[test]
fn a_running_pod_is_told_in_the_words_of_the_api() {
    let status = desired(&running(), &json!({"phase": "Pending", "startTime": "2026-03-01T00:00:00Z"}));
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Running"), &Value::Null));
    assert_eq!(status["startTime"], "2026-03-01T00:00:00Z", "the first start sticks");
    assert_eq!(status["podIPs"], json!([{"ip": "10.88.0.7"}, {"ip": "fd00::7"}]), "the node's family first");
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.88.0.7"), &json!("10.240.0.10")));
    let expected = json!([{
        "name": "app", "state": {"running": {"startedAt": STAMP}}, "lastState": {}, "ready": true, "started": true,
        "restartCount": 1, "image": "i:1", "imageID": "sha256:1", "containerID": "containerd://b",
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"name": "w", "mountPath": "/w"},
            {"name": "v", "mountPath": "/x", "readOnly": true, "recursiveReadOnly": "Enabled"}],
        "user": {"linux": {"uid": 1000, "gid": 2000, "supplementalGroups": [2000, 3000]}},
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, "allocatedResources": {"cpu": "1"},
    }]);
    assert_eq!(status["containerStatuses"], expected);
    let kinds: Vec<&Value> =
        status["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["Ready", "PodScheduled"], "an eviction is reported with the end of the pod");
}

#[test]
fn containers_are_ordered_by_name_and_init_containers_as_in_the_spec() {
    let wait = || StateView::Waiting { reason: "PodInitializing".into(), message: String::new() };
    let mut pod = status("Pending", vec![container("b", wait()), container("app", wait())]);
    pod.init = vec![container("a", wait()), container("z", wait())];
    let status = desired(&pod, &json!({}));
    let names =
        |key: &str| status[key].as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names("containerStatuses"), ["app", "b"]);
    assert_eq!(names("initContainerStatuses"), ["z", "a"]);
    assert_eq!(status["containerStatuses"][0]["state"], json!({"waiting": {"reason": "PodInitializing"}}));
}

#[test]
fn ends_name_their_instance_and_messages_share_a_limit() {
    let long = "ä".repeat(10_000);
    let back_off = StateView::Waiting { reason: "CrashLoopBackOff".into(), message: "x".into() };
    let waiting = ContainerView { last: Some(exit(1, &long)), ..container("app", back_off) };
    let running =
        ContainerView { last: Some(exit(1, "")), ..container("b", StateView::Running { since: SINCE }) };
    let status = desired(&status("Running", vec![waiting, running]), &json!({}));
    let last = |index: usize| status["containerStatuses"][index]["lastState"]["terminated"].clone();
    assert_eq!(last(0)["containerID"], "containerd://b");
    assert_eq!(last(1)["containerID"], "containerd://a");
    assert_eq!(last(0)["message"].as_str().unwrap().len(), 12288 / 2);
}

#[test]
fn a_terminal_phase_waits_for_the_last_container_and_never_reverts() {
    let ended = || PodStatus { reason: Some("Evicted".into()), ..status("Failed", vec![]) };
    let before = desired(&ended(), &json!({"phase": "Running"}));
    assert_eq!((&before["phase"], &before["reason"]), (&json!("Running"), &Value::Null));
    let over = PodStatus { stage: "Terminated".into(), ..ended() };
    let after = desired(&over, &json!({"phase": "Running"}));
    assert_eq!((&after["phase"], &after["reason"]), (&json!("Failed"), &json!("Evicted")));
    let conditions = after["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["type"], "DisruptionTarget");
    assert_eq!((&conditions[1]["status"], &conditions[1]["reason"]), (&json!("False"), &json!("PodFailed")));
    let again = desired(&running(), &json!({"phase": "Succeeded", "message": "done"}));
    assert_eq!((&again["phase"], &again["message"]), (&json!("Succeeded"), &json!("done")));
    assert_eq!(again["conditions"][1]["type"], "Ready");
    assert_eq!(again["conditions"][1]["reason"], "PodCompleted");
}

#[test]
fn after_the_clean_up_no_container_runs() {
    let status = converted(&running(), &live(&json!({"phase": "Running"})), CleanUp::Finished);
    assert_eq!(status["phase"], "Failed");
    let container = &status["containerStatuses"][0];
    let end = &container["state"]["terminated"];
    assert_eq!((&end["exitCode"], &end["reason"]), (&json!(137), &json!("ContainerStatusUnknown")));
    assert_eq!((&container["ready"], &container["started"]), (&json!(false), &json!(false)));
    let mut mirror = live(&json!({"phase": "Running"}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    assert_eq!(converted(&running(), &mirror, CleanUp::Finished)["phase"], "Running");
}

#[test]
fn ephemeral_containers_are_neither_ready_nor_started_and_end_once() {
    let mut pod = running();
    pod.ephemeral = vec![container("debug", StateView::Running { since: SINCE })];
    let status = desired(&pod, &json!({}));
    let debug = &status["ephemeralContainerStatuses"][0];
    assert_eq!((&debug["ready"], debug.get("started")), (&json!(false), None));
    assert_eq!((&debug["resources"], debug.get("allocatedResources")), (&json!({}), None));
    let end =
        json!({"ephemeralContainerStatuses": [{"name": "debug", "state": {"terminated": {"exitCode": 1}}}]});
    let mut live = live(&end);
    live["spec"]["restartPolicy"] = json!("Always");
    assert_eq!(revived(&live, &converted(&pod, &live, CleanUp::Pending)), ["debug"]);
}

#[test]
fn a_deletion_is_observed_once_the_pod_is_being_stopped() {
    let mut deleted = live(&json!({"phase": "Running"}));
    deleted["metadata"]["generation"] = json!(4);
    let observed = |stage: &str, live: &Value| {
        let pod = PodStatus { stage: stage.into(), ..running() };
        let status = converted(&pod, live, CleanUp::Pending);
        assert_eq!(status["conditions"][0]["observedGeneration"], status["observedGeneration"]);
        status["observedGeneration"].clone()
    };
    assert_eq!(observed("Terminating", &deleted), 3, "a change of the spec is observed by the worker");
    deleted["metadata"]["deletionTimestamp"] = json!(STAMP);
    assert_eq!((observed("Syncing", &deleted), observed("Terminating", &deleted)), (json!(3), json!(4)));
}

#[test]
fn a_container_that_ended_for_good_is_not_revived() {
    let end = |code: i32| json!({"containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": code}}}]});
    let found = |policy: &str, code: i32| {
        let mut live = live(&end(code));
        live["spec"]["restartPolicy"] = json!(policy);
        revived(&live, &converted(&running(), &live, CleanUp::Pending))
    };
    assert_eq!(found("Never", 1), ["app"]);
    assert_eq!(found("OnFailure", 0), ["app"]);
    assert!(found("OnFailure", 1).is_empty() && found("Always", 0).is_empty());
    let mut over = live(&end(0));
    over["spec"]["restartPolicy"] = json!("Always");
    over["status"]["phase"] = json!("Succeeded");
    assert_eq!(revived(&over, &converted(&running(), &over, CleanUp::Pending)), ["app"], "the pod is over");
}

#[test]
fn what_is_in_the_api_is_not_sent_again() {
    let known = live(&json!({"phase": "Pending", "message": "old", "podIPs": [{"ip": "10.0.0.1"}]}));
    let first = patch(&known, &converted(&running(), &known, CleanUp::Pending)).unwrap();
    assert_eq!(first["metadata"], json!({"uid": "u-1"}));
    assert_eq!(first["status"]["message"], Value::Null);
    let ips = json!([{"ip": "10.88.0.7"}, {"ip": "fd00::7"}, {"$patch": "replace"}]);
    assert_eq!(first["status"]["podIPs"], ips);
    let after = applied(&known, &first);
    assert_eq!(patch(&after, &converted(&running(), &after, CleanUp::Pending)), None);
}

#[test]
fn conditions_of_others_stay_and_ours_change_their_time_only_when_they_flip() {
    let foreign = json!({"type": "example.com/gate", "status": "True"});
    let time = "2026-01-01T00:00:00Z";
    let ready =
        json!({"type": "Ready", "status": "True", "lastTransitionTime": time, "observedGeneration": 9});
    let known = live(&json!({"phase": "Running", "conditions": [ready, foreign], "observedGeneration": 9}));
    let desired = converted(&running(), &known, CleanUp::Pending);
    assert_eq!(desired["observedGeneration"], 9, "never lowered");
    assert_eq!(desired["conditions"][0]["lastTransitionTime"], time);
    let sent = patch(&known, &desired).unwrap();
    let kinds: Vec<&Value> =
        sent["status"]["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["PodScheduled"]);
    let order = json!([{"type": "example.com/gate"}, {"type": "Ready"}, {"type": "PodScheduled"}]);
    assert_eq!(sent["status"]["$setElementOrder/conditions"], order);
    let mut unready = running();
    unready.conditions = vec![condition("Ready", "False")];
    assert_eq!(converted(&unready, &known, CleanUp::Pending)["conditions"][0]["lastTransitionTime"], STAMP);
}

fn resized(pending: Option<ResizeView>, resize: Option<ResizeView>) -> PodStatus {
    let list = |cpu: &str| Some([("cpu".to_owned(), cpu.to_owned())].into());
    let of_app = ContainerResourcesView {
        in_effect: ResourcesView { limits: None, requests: list("1") },
        allocated: list("2"),
    };
    let resources = ResourcesStatus {
        pod: ResourcesView { limits: Some([].into()), requests: list("1") },
        allocated: list("2").unwrap(),
        containers: [("app".to_owned(), of_app)].into(),
        resize,
        pending,
    };
    PodStatus { resources: Some(resources), ..running() }
}

fn view(reason: &str, message: &str) -> ResizeView {
    ResizeView { generation: Some(7), reason: reason.into(), message: message.into(), since: SINCE }
}

#[test]
fn a_resize_is_told_by_conditions_and_by_resources_that_are_allocated_and_in_effect() {
    let status = desired(&resized(Some(view("Deferred", "no room")), Some(view("", ""))), &json!({}));
    let conditions = status["conditions"].as_array().unwrap();
    let pending = json!({"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room",
        "observedGeneration": 7, "lastTransitionTime": STAMP});
    assert_eq!(conditions[0], pending);
    assert_eq!(
        (&conditions[1]["type"], &conditions[1]["reason"]),
        (&json!("PodResizeInProgress"), &Value::Null)
    );
    assert_eq!(conditions[2]["type"], "Ready");
    let app = &status["containerStatuses"][0];
    assert_eq!(app["resources"], json!({"requests": {"cpu": "1"}}));
    assert_eq!(app["allocatedResources"], json!({"cpu": "2"}));
    assert_eq!(status["resources"], json!({"requests": {"cpu": "1"}}));
    assert_eq!(status["allocatedResources"], json!({"cpu": "2"}));
}

#[test]
fn the_conditions_of_a_resize_go_with_it_and_keep_their_time_until_the_reason_changes() {
    let time = "2026-01-01T00:00:00Z";
    let known = |reason: &str| json!({"type": "PodResizePending", "status": "True", "reason": reason, "lastTransitionTime": time});
    let foreign = json!({"type": "example.com/gate", "status": "True"});
    let of = |reason: &str, pending: Option<ResizeView>| {
        let live = live(&json!({"phase": "Running", "conditions": [known(reason), foreign]}));
        let desired = converted(&resized(pending, None), &live, CleanUp::Pending);
        (desired["conditions"][0].clone(), patch(&live, &desired).unwrap()["status"].clone(), live)
    };
    let (same, ..) = of("Deferred", Some(view("Deferred", "")));
    assert_eq!(same["lastTransitionTime"], time);
    let (other, ..) = of("Deferred", Some(view("Infeasible", "")));
    assert_eq!(other["lastTransitionTime"], STAMP);
    let (_, gone, live) = of("Deferred", None);
    let deleted = json!({"$patch": "delete", "type": "PodResizePending"});
    assert!(gone["conditions"].as_array().unwrap().contains(&deleted), "{gone}");
    let order: Vec<&Value> =
        gone["$setElementOrder/conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(order, ["example.com/gate", "Ready", "PodScheduled"]);
    let after = applied(&live, &json!({"metadata": {}, "status": gone}));
    assert_eq!(patch(&after, &converted(&resized(None, None), &after, CleanUp::Pending)), None);
}

#[test]
fn a_pending_resize_of_an_earlier_process_is_read_from_the_api() {
    let status = json!({"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred",
        "message": "no room", "observedGeneration": 7, "lastTransitionTime": STAMP}]});
    let expected = ResizeView { since: SINCE / 1000 * 1000, ..view("Deferred", "no room") };
    assert_eq!(super::resources::pending_of(&status), Some(expected));
    assert_eq!(super::resources::pending_of(&json!({})), None);
}
