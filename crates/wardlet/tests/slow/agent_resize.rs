//! Pods that are resized while they run on `wardlet agent`, and pods that ask for resources as a whole, at a real API server.

use std::path::PathBuf;

use serde_json::{Value, json};
use testbed::Part;
use testkit::wait_until;

use crate::cluster::pods::{LASTING, bound_pod};
use crate::cluster::{Cluster, NODE, Runtime, is_true, uid};

/// Holds 60 MB of memory while there is a file /hold/on.
const HOLDS: &str = "trap 'exit 0' TERM; while :; do if [ -e /hold/on ] && [ ! -e /dev/shm/held ]; then \
    head -c 60000000 /dev/zero >/dev/shm/held; fi; [ -e /hold/on ] || rm -f /dev/shm/held; sleep 0.2; done";

fn start(runtime: Runtime) -> (Cluster, crate::cluster::Agent) {
    let mut cluster = Cluster::of(runtime, &[Part::ControllerManager, Part::Scheduler]);
    cluster.flags = vec![format!("--root-dir={}", cluster.path("kubelet").display())];
    cluster.import();
    let agent = cluster.agent();
    cluster.await_node_ready();
    (cluster, agent)
}

fn resources(cpu: &str, cpu_limit: &str, memory: &str, memory_limit: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu_limit, "memory": memory_limit}})
}

/// A pod with these resources of its only container.
fn pod(name: &str, resources: &Value) -> Value {
    let mut pod = bound_pod(name, LASTING);
    pod["spec"]["containers"][0]["resources"] = resources.clone();
    pod
}

impl Cluster {
    /// Asks for other resources of a container.
    fn resize(&self, pod: &str, container: &str, resources: &Value) {
        let patch = json!({"spec": {"containers": [{"name": container, "resources": resources}]}});
        self.kubectl(&format!("patch pod {pod} --subresource resize --type strategic -p {patch}"));
    }

    /// The pod once nothing of it is resized, and all of its containers have what they ask for.
    fn resized(&self, name: &str) -> Value {
        self.await_pod(name, "has what it asks for", |pod| {
            let is_seen = pod["status"]["observedGeneration"] == pod["metadata"]["generation"];
            let is_calm = ["PodResizePending", "PodResizeInProgress"].iter().all(|one| !is_true(pod, one));
            let containers = pod["spec"]["containers"].as_array().unwrap();
            let has = |container: &Value| {
                let status = status(pod, container["name"].as_str().unwrap());
                status["resources"] == container["resources"]
                    && status["allocatedResources"] == container["resources"]["requests"]
            };
            is_seen && is_calm && is_true(pod, "Ready") && containers.iter().all(has)
        })
    }

    /// A value of the cgroup of a pod, by the names of its file in version 2 and in version 1.
    fn limit(&self, pod: &Value, class: &str, names: [&str; 2]) -> String {
        let below = format!("kubepods{class}/pod{}", uid(pod));
        let dirs: Vec<PathBuf> = self.testbed.record().cgroups.iter().map(|dir| dir.join(&below)).collect();
        let mut all = names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
        let found = all.find_map(|file| std::fs::read_to_string(file).ok());
        found.unwrap_or_else(|| panic!("{below} has none of {names:?}")).trim().to_owned()
    }

    fn memory(&self, pod: &Value, class: &str) -> String {
        self.limit(pod, class, ["memory.max", "memory.limit_in_bytes"])
    }

    /// The quota of CPU in each period of 100 ms.
    fn quota(&self, pod: &Value, class: &str) -> String {
        let text = self.limit(pod, class, ["cpu.max", "cpu.cfs_quota_us"]);
        text.split_whitespace().next().unwrap().to_owned()
    }

    fn has_event(&self, pod: &str, reason: &str, words: &str) -> bool {
        let events = self.list(&format!("events --field-selector involvedObject.name={pod},reason={reason}"));
        events.iter().any(|event| event["message"].as_str().unwrap_or_default().contains(words))
    }

    fn await_event_with(&self, pod: &str, reason: &str, words: &str) {
        wait_until(&format!("{pod} has an event {reason} with {words:?}"), || {
            self.has_event(pod, reason, words)
        });
    }
}

fn status<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let mut all = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    all.find(|one| one["name"] == container).unwrap_or(&Value::Null)
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let mut all = pod["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

const MIB: u64 = 1 << 20;

/// Everything that a running pod goes through.
fn in_place(runtime: Runtime) {
    let (cluster, agent) = start(runtime);
    let mut web = pod("web", &resources("100m", "200m", "64Mi", "128Mi"));
    web["spec"]["containers"][0]["command"] = json!(["sh", "-c", HOLDS]);
    web["spec"]["volumes"] = json!([{"name": "hold", "emptyDir": {}}]);
    web["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "hold", "mountPath": "/hold"}]);
    let mut restarts = web["spec"]["containers"][0].clone();
    restarts["name"] = json!("restarts");
    restarts["command"] = json!(["sh", "-c", LASTING]);
    restarts["resizePolicy"] = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"},
        {"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    web["spec"]["containers"].as_array_mut().unwrap().push(restarts);
    cluster.apply(&web);
    let before = cluster.resized("web");
    assert_eq!(
        (cluster.memory(&before, "/burstable"), cluster.quota(&before, "/burstable")),
        limits(256, 400)
    );

    // CPU and memory of a container, without a restart.
    cluster.resize("web", "app", &resources("150m", "300m", "96Mi", "192Mi"));
    let after = cluster.resized("web");
    assert_eq!((cluster.memory(&after, "/burstable"), cluster.quota(&after, "/burstable")), limits(320, 500));
    for container in ["app", "restarts"] {
        let key = |pod: &Value| {
            (status(pod, container)["containerID"].clone(), status(pod, container)["restartCount"].clone())
        };
        assert_eq!(key(&after), key(&before), "{container}");
    }
    let asked = r#"{"containers":[{"name":"app","resources":{"limits":{"cpu":"300m","memory":"192Mi"}"#;
    cluster.await_event_with("web", "ResizeStarted", &format!("Pod resize started: {asked}"));
    cluster.await_event_with("web", "ResizeCompleted", &format!("Pod resize completed: {asked}"));
    assert_eq!(after["status"]["allocatedResources"]["cpu"], "250m");

    // CPU of the other one needs no restart; memory does.
    cluster.resize("web", "restarts", &resources("200m", "200m", "64Mi", "128Mi"));
    assert_eq!(status(&cluster.resized("web"), "restarts")["restartCount"], 0);
    cluster.resize("web", "restarts", &resources("200m", "200m", "32Mi", "64Mi"));
    let after = cluster.resized("web");
    assert_eq!(
        (&status(&after, "restarts")["restartCount"], &status(&after, "app")["restartCount"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(cluster.memory(&after, "/burstable"), (256 * MIB).to_string());
    cluster.await_event_with("web", "Killing", "Container restarts resize requires restart");

    // Less memory than is used is refused as long as it is used.
    cluster.kubectl("exec web -c app -- touch /hold/on");
    wait_until("memory is held", || {
        cluster.kubectl("exec web -c app -- stat -c %s /dev/shm/held").trim() == "60000000"
    });
    cluster.resize("web", "app", &resources("150m", "300m", "20Mi", "40Mi"));
    let failed = cluster.await_pod("web", "cannot be resized", |pod| {
        condition(pod, "PodResizeInProgress")["reason"] == "Error"
    });
    let words = "cannot decrease memory limits: ";
    assert!(
        condition(&failed, "PodResizeInProgress")["message"].as_str().unwrap().starts_with(words),
        "{failed}"
    );
    assert_eq!(status(&failed, "app")["resources"]["limits"]["memory"], "192Mi");
    assert_eq!(status(&failed, "app")["allocatedResources"]["memory"], "20Mi");
    cluster.await_event_with("web", "ResizeError", words);

    // Another agent goes on with it.
    agent.stop();
    let _agent = cluster.agent();
    cluster.kubectl("exec web -c app -- rm /hold/on");
    let after = cluster.resized("web");
    assert_eq!(cluster.memory(&after, "/burstable"), (104 * MIB).to_string());
    assert_eq!(status(&after, "app")["restartCount"], 0);
    let metrics = cluster.metrics();
    for words in [
        "kubelet_pod_in_progress_resizes 0\n",
        "kubelet_pod_resize_duration_milliseconds_count{success=\"true\"}",
    ] {
        assert!(metrics.contains(words), "{words}");
    }
    cluster.kubectl("delete pod web --timeout=60s");
}

fn limits(memory: u64, millis: u64) -> (String, String) {
    ((memory * MIB).to_string(), (millis * 100).to_string())
}

#[test]
fn a_running_pod_is_resized_in_place_on_the_built_in_runtime() {
    in_place(Runtime::BuiltIn);
}

#[test]
fn a_running_pod_is_resized_in_place_on_containerd() {
    in_place(Runtime::Containerd);
}

fn millis(node: &Value) -> u64 {
    let text = node["status"]["allocatable"]["cpu"].as_str().unwrap();
    text.strip_suffix('m')
        .map_or_else(|| text.parse::<u64>().unwrap() * 1000, |millis| millis.parse().unwrap())
}

#[test]
fn a_resize_waits_for_room_and_is_known_beyond_the_process() {
    let (cluster, agent) = start(Runtime::BuiltIn);
    let all = millis(&cluster.get(&format!("node {NODE}")).unwrap());
    let cpu = |millis: u64| json!({"requests": {"cpu": format!("{millis}m"), "memory": "32Mi"}});
    cluster.apply(&pod("large", &cpu(all * 6 / 10)));
    cluster.apply(&pod("small", &cpu(all / 10)));
    cluster.resized("large");
    cluster.resized("small");

    let wanted = format!("{}m", all / 2);
    cluster.resize("small", "app", &cpu(all / 2));
    let waiting = cluster.await_pod("small", "waits", |pod| is_true(pod, "PodResizePending"));
    let pending = condition(&waiting, "PodResizePending");
    assert_eq!(
        (&pending["reason"], &pending["observedGeneration"]),
        (&json!("Deferred"), &waiting["metadata"]["generation"])
    );
    assert!(
        pending["message"].as_str().unwrap().starts_with("Node didn't have enough resource: cpu"),
        "{pending}"
    );
    let app = status(&waiting, "app");
    assert_eq!(app["allocatedResources"]["cpu"], format!("{}m", all / 10), "what it was given counts");
    cluster.await_event_with("small", "ResizeDeferred", "Pod resize OutOfcpu: {");
    let metrics = cluster.metrics();
    assert!(
        metrics.contains("kubelet_pod_pending_resizes{reason=\"deferred\",priority_bucket=\"normal\"} 1\n")
    );

    // The next agent does not reject the pod for what it asks for.
    agent.stop();
    let file = std::fs::read_to_string(cluster.path("kubelet/allocated_pods_state")).unwrap();
    assert!(file.contains(uid(&waiting)) && !file.contains(&wanted), "{file}");
    let agent = cluster.agent();
    wait_until("the agent is back", || {
        let raw = ["get", "--raw", "/api/v1/nodes/agent0/proxy/healthz"];
        cluster.testbed.command("kubectl").args(raw).output().unwrap().status.success()
    });
    let again = cluster.await_pod("small", "still waits", |pod| is_true(pod, "PodResizePending"));
    assert_eq!(condition(&again, "PodResizePending")["lastTransitionTime"], pending["lastTransitionTime"]);
    assert_eq!(status(&again, "app")["containerID"], app["containerID"]);

    // A pod that ends makes room.
    cluster.kubectl("delete pod large --timeout=60s");
    let after = cluster.resized("small");
    assert_eq!(status(&after, "app")["allocatedResources"]["cpu"], wanted);
    assert_eq!(status(&after, "app")["restartCount"], 0);

    // What is more than the node has waits as well, until the pod does not ask for it any more.
    cluster.resize("small", "app", &cpu(all * 10));
    cluster.await_pod("small", "waits", |pod| is_true(pod, "PodResizePending"));
    cluster.resize("small", "app", &cpu(all / 2));
    cluster.resized("small");
    agent.stop();
    let [allocated, actuated] = ["allocated", "actuated"].map(|kind| {
        let text = std::fs::read_to_string(cluster.path(&format!("kubelet/{kind}_pods_state"))).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["data"].as_str().unwrap().to_owned()
    });
    assert_eq!(allocated, actuated, "a kubelet would find nothing to do");
}

#[test]
fn resources_of_a_pod_as_a_whole_are_those_of_its_cgroup_and_are_resized() {
    let (cluster, _agent) = start(Runtime::BuiltIn);
    let mut whole = bound_pod("whole", LASTING);
    whole["spec"]["resources"] = resources("200m", "500m", "64Mi", "128Mi");
    let mut other = whole["spec"]["containers"][0].clone();
    other["name"] = json!("limited");
    other["resources"] = json!({"requests": {"cpu": "50m"}, "limits": {"memory": "32Mi"}});
    whole["spec"]["containers"].as_array_mut().unwrap().push(other);
    cluster.apply(&whole);
    let running = cluster.await_pod("whole", "is ready", |pod| is_true(pod, "Ready"));
    assert_eq!(running["status"]["qosClass"], "Burstable");
    assert_eq!(
        (cluster.memory(&running, "/burstable"), cluster.quota(&running, "/burstable")),
        limits(128, 500)
    );
    assert_eq!(running["status"]["allocatedResources"]["cpu"], "200m");
    assert_eq!(running["status"]["resources"]["limits"]["memory"], "128Mi");
    let node = cluster.get(&format!("node {NODE}")).unwrap();
    let declared = node["status"]["declaredFeatures"].as_array().unwrap();
    assert!(declared.contains(&json!("InPlacePodLevelResourcesVerticalScaling")), "{declared:?}");

    let patch = json!({"spec": {"resources": resources("300m", "600m", "96Mi", "160Mi")}});
    cluster.kubectl(&format!("patch pod whole --subresource resize --type strategic -p {patch}"));
    let after = cluster.await_pod("whole", "has what it asks for", |pod| {
        pod["status"]["resources"]["limits"]["memory"] == "160Mi" && !is_true(pod, "PodResizeInProgress")
    });
    assert_eq!((cluster.memory(&after, "/burstable"), cluster.quota(&after, "/burstable")), limits(160, 600));
    assert_eq!(after["status"]["allocatedResources"], json!({"cpu": "300m", "memory": "96Mi"}));
    assert_eq!(status(&after, "app")["restartCount"], 0);

    // All limits are equal to requests: a pod of class Guaranteed.
    let mut full = bound_pod("full", LASTING);
    full["spec"]["resources"] = json!({"limits": {"cpu": "100m", "memory": "64Mi"}});
    cluster.apply(&full);
    let running = cluster.await_pod("full", "is ready", |pod| is_true(pod, "Ready"));
    assert_eq!(running["status"]["qosClass"], "Guaranteed");
    assert_eq!(cluster.memory(&running, ""), (64 * MIB).to_string());
    cluster.kubectl("delete pod whole full --timeout=60s");
}
