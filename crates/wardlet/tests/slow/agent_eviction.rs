//! What `wardlet agent` does when its node runs short of disk space or memory, and about pods that use more local storage than
//! their limits: the pod that upstream's ranking puts first is evicted, and the node recovers.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::faults;
use testkit::{wait_for, wait_until};

use crate::cluster::pods::{bound_pod, container_id};
use crate::cluster::{Cluster, NODE, Runtime};

const MIB: u64 = 1 << 20;
/// How long a condition stays after it was observed: long enough to see it.
const TRANSITION: &str = "60s";

/// Writes so many MiB to a file and waits to be ended.
fn writing(mebibytes: u64, file: &str) -> String {
    format!(
        "dd if=/dev/zero of={file} bs=1M count={mebibytes} 2>/dev/null; trap 'kill $!; exit 0' TERM; sleep 100000 & wait"
    )
}

/// A pod that writes to its volume `data`, an emptyDir of this kind.
fn pod(name: &str, mebibytes: u64, empty_dir: &Value) -> Value {
    let mut pod = bound_pod(name, &writing(mebibytes, "/data/file"));
    pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": empty_dir}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod
}

fn with(mut pod: Value, field: &str, value: &Value) -> Value {
    pod["spec"][field] = value.clone();
    pod
}

fn with_resources(mut pod: Value, resources: &Value) -> Value {
    pod["spec"]["containers"][0]["resources"] = resources.clone();
    pod
}

impl Cluster {
    /// With these fields in the kubelet's configuration, and with its root directory in one of its own.
    fn evicting(runtime: Runtime, fields: &Value) -> Self {
        let mut cluster = Self::start(runtime);
        let root = cluster.path("kubelet");
        std::fs::create_dir(&root).unwrap();
        cluster.flags = vec![format!("--root-dir={}", root.display())];
        cluster.kubelet = json!({"evictionPressureTransitionPeriod": TRANSITION});
        cluster.kubelet.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        cluster
    }

    #[track_caller]
    fn await_running(&self, name: &str) -> Value {
        self.await_pods(name, 1, |pod| pod["status"]["phase"] == "Running").remove(0)
    }

    /// The status of a pod, once it has failed.
    #[track_caller]
    fn await_failed(&self, name: &str) -> Value {
        self.await_pods(name, 1, |pod| pod["status"]["phase"] == "Failed").remove(0)["status"].clone()
    }

    /// A condition of the node.
    fn condition(&self, kind: &str) -> Value {
        let node = self.get(&format!("node {NODE}")).unwrap_or_default();
        let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
    }

    #[track_caller]
    fn await_condition(&self, kind: &str, status: &str, reason: &str) {
        wait_until(&format!("{kind} is {status}"), || {
            let condition = self.condition(kind);
            condition["status"] == status && condition["reason"] == reason
        });
    }

    /// The events of an object with this reason.
    fn events_of(&self, object: &str, reason: &str) -> Vec<Value> {
        let selector = format!("--field-selector involvedObject.name={object},reason={reason}");
        self.list(&format!("events {selector}"))
    }

    #[track_caller]
    fn await_event(&self, object: &str, reason: &str) -> Value {
        wait_for(&format!("{reason} of {object}"), || self.events_of(object, reason).into_iter().next())
    }

    /// The same containers run as before.
    #[track_caller]
    fn assert_untouched(&self, before: &[Value]) {
        for pod in before {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let now = self.get(&format!("pod {name}")).unwrap_or_default();
            assert_eq!(now["status"]["phase"], "Running", "{name}");
            assert_eq!(container_id(&now), container_id(pod), "{name}");
        }
    }

    #[track_caller]
    fn end_all(&self) {
        self.kubectl("delete pods --all --timeout=100s");
        self.await_no_leases();
    }
}

fn disruption(status: &Value) -> Option<&Value> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == "DisruptionTarget")
}

/// A small disk under the root directory, which has the volumes of pods: the pod that has written more than it requests is
/// evicted. One that stays within its request and a critical one are not, whatever they have written.
fn the_pod_beyond_its_request_is_evicted_for_disk_space(runtime: Runtime) {
    let cluster = Cluster::evicting(runtime, &json!({"evictionHard": {"nodefs.available": "40%"}}));
    faults::disk::separate(&cluster.testbed, &cluster.path("kubelet"), 256 * MIB).unwrap();
    cluster.import();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    assert_eq!(cluster.condition("DiskPressure")["reason"], "KubeletHasNoDiskPressure");
    let critical = with(pod("critical", 45, &json!({})), "priorityClassName", &json!("system-node-critical"));
    cluster.apply(&critical);
    let requests = json!({"requests": {"ephemeral-storage": "100Mi"}});
    cluster.apply(&with_resources(pod("modest", 40, &json!({})), &requests));
    let before = ["critical", "modest"].map(|name| cluster.await_running(name));

    cluster.apply(&pod("greedy", 70, &json!({})));
    cluster.await_condition("DiskPressure", "True", "KubeletHasDiskPressure");
    let status = cluster.await_failed("greedy");
    assert_eq!(status["reason"], "Evicted");
    let message = status["message"].as_str().unwrap();
    let begin = "The node was low on resource: ephemeral-storage. Threshold quantity: ";
    assert!(message.starts_with(begin) && message.contains(", available: "), "{message}");
    let target = disruption(&status).unwrap();
    assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("TerminationByKubelet")));
    assert_eq!(target["message"], status["message"]);
    let event = cluster.await_event("greedy", "Evicted");
    assert_eq!((&event["type"], &event["message"]), (&json!("Warning"), &status["message"]));
    let annotations = &event["metadata"]["annotations"];
    assert_eq!(annotations["starved_resource"], "ephemeral-storage");
    let reclaiming = cluster.await_event(NODE, "EvictionThresholdMet");
    assert_eq!(reclaiming["message"], "Attempting to reclaim ephemeral-storage");
    cluster.await_event(NODE, "NodeHasDiskPressure");

    // Meanwhile the node takes critical pods only.
    cluster.apply(&pod("late", 1, &json!({})));
    let late = cluster.await_failed("late");
    assert_eq!(late["reason"], "Evicted");
    assert_eq!(late["message"], "Pod was rejected: The node had condition: [DiskPressure]. ");

    // Its volume is gone, and the node has enough again.
    cluster.await_condition("DiskPressure", "False", "KubeletHasNoDiskPressure");
    cluster.assert_untouched(&before);
    cluster.apply(&pod("after", 1, &json!({})));
    cluster.await_running("after");
    let metrics = cluster.metrics();
    let line = "kubelet_evictions{eviction_signal=\"nodefs.available\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    let age = "kubelet_eviction_stats_age_seconds_count{eviction_signal=\"nodefs.available\"}";
    assert!(metrics.contains(age), "{metrics}");
    cluster.end_all();
}

#[test]
fn the_pod_beyond_its_request_is_evicted_for_disk_space_on_the_built_in_runtime() {
    the_pod_beyond_its_request_is_evicted_for_disk_space(Runtime::BuiltIn);
}

#[test]
fn the_pod_beyond_its_request_is_evicted_for_disk_space_on_containerd() {
    the_pod_beyond_its_request_is_evicted_for_disk_space(Runtime::Containerd);
}

/// The agent ends while it ends a pod: the next one does not start the pod again, and gives the same reason.
#[test]
fn an_eviction_that_the_agent_does_not_survive_is_completed_by_the_next_agent() {
    let cluster = Cluster::evicting(Runtime::BuiltIn, &json!({"evictionHard": {"nodefs.available": "40%"}}));
    faults::disk::separate(&cluster.testbed, &cluster.path("kubelet"), 256 * MIB).unwrap();
    cluster.import();
    let agent = cluster.agent();
    cluster.await_node_ready();
    cluster.apply(&pod("greedy", 150, &json!({})));
    // It is on disk before the pod is ended.
    let ends = cluster.state().join("ended-by-node.json");
    wait_until("the end of the pod is recorded", || {
        std::fs::read_to_string(&ends).is_ok_and(|text| text.contains("Evicted"))
    });
    drop(agent);
    let _agent = cluster.agent();
    let status = cluster.await_failed("greedy");
    assert_eq!(status["reason"], "Evicted", "{status:#}");
    assert!(disruption(&status).is_some(), "{status:#}");
    let restarts = &status["containerStatuses"][0]["restartCount"];
    assert_eq!(restarts, 0, "{status:#}");
    wait_until("the end is no longer recorded", || {
        !std::fs::read_to_string(&ends).unwrap().contains("Evicted")
    });
    cluster.end_all();
}

/// All of this machine's memory in bytes.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// All pods together have 400 MiB, and are evicted when less than 150 MiB of them are available: this machine itself has enough.
fn the_pod_beyond_its_request_is_evicted_for_memory(runtime: Runtime) {
    let reserved = memory() - 400 * MIB;
    let fields = json!({
        "evictionHard": {"memory.available": "150Mi"}, "systemReserved": {"memory": reserved.to_string()},
    });
    let cluster = Cluster::evicting(runtime, &fields);
    cluster.import();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    let in_memory = |limit: &str| json!({"medium": "Memory", "sizeLimit": limit});
    let requests = json!({"requests": {"memory": "100Mi"}});
    cluster.apply(&with_resources(pod("modest", 40, &in_memory("50Mi")), &requests));
    let before = [cluster.await_running("modest")];

    cluster.apply(&pod("hungry", 240, &in_memory("300Mi")));
    cluster.await_condition("MemoryPressure", "True", "KubeletHasInsufficientMemory");
    let status = cluster.await_failed("hungry");
    assert_eq!(status["reason"], "Evicted");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("The node was low on resource: memory. Threshold quantity: 150Mi, available: "),
        "{message}"
    );
    let consumer = message.split_once("Container app was using ").map(|(_, rest)| rest);
    let end = ", request is 0, has larger consumption of memory. ";
    assert!(consumer.is_some_and(|rest| rest.ends_with(end)), "{message}");
    let annotations = cluster.await_event("hungry", "Evicted")["metadata"]["annotations"].clone();
    assert_eq!(annotations["offending_containers"], "app");
    assert_eq!(annotations["starved_resource"], "memory");

    // Pods that request nothing are refused, and others are not.
    cluster.apply(&pod("best-effort", 1, &json!({})));
    let refused = cluster.await_failed("best-effort");
    assert_eq!(refused["message"], "Pod was rejected: The node had condition: [MemoryPressure]. ");
    cluster.apply(&with_resources(pod("burstable", 1, &json!({})), &json!({"requests": {"memory": "5Mi"}})));
    cluster.await_running("burstable");
    cluster.await_condition("MemoryPressure", "False", "KubeletHasSufficientMemory");
    cluster.assert_untouched(&before);
    let metrics = cluster.metrics();
    let line = "kubelet_evictions{eviction_signal=\"allocatableMemory.available\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    cluster.end_all();
}

#[test]
fn the_pod_beyond_its_request_is_evicted_for_memory_on_the_built_in_runtime() {
    the_pod_beyond_its_request_is_evicted_for_memory(Runtime::BuiltIn);
}

#[test]
fn the_pod_beyond_its_request_is_evicted_for_memory_on_containerd() {
    the_pod_beyond_its_request_is_evicted_for_memory(Runtime::Containerd);
}

fn limited(limit: &str) -> Value {
    json!({"limits": {"ephemeral-storage": limit}, "requests": {"ephemeral-storage": "1Mi"}})
}

/// Without pressure: what counts are the pod's own limits.
fn a_pod_beyond_its_limits_of_local_storage_is_evicted(runtime: Runtime) {
    let cluster = Cluster::evicting(runtime, &json!({}));
    cluster.import();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    cluster.apply(&pod("within", 4, &json!({"sizeLimit": "32Mi"})));
    cluster.apply(&pod("volume", 16, &json!({"sizeLimit": "8Mi"})));
    cluster.apply(&with_resources(pod("whole", 16, &json!({})), &limited("8Mi")));
    // The limit of the pod is that of its containers together: here only one of them exceeds its own.
    let mut layer = with_resources(bound_pod("layer", &writing(16, "/big")), &limited("8Mi"));
    let mut other = bound_pod("layer", &writing(1, "/small"))["spec"]["containers"][0].clone();
    other["name"] = json!("other");
    other["resources"] = limited("100Mi");
    layer["spec"]["containers"].as_array_mut().unwrap().push(other);
    cluster.apply(&layer);

    for (name, message) in [
        ("volume", "Usage of EmptyDir volume \"data\" exceeds the limit \"8Mi\". "),
        ("whole", "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. "),
        ("layer", "Container app exceeded its local ephemeral storage limit \"8Mi\". "),
    ] {
        let status = cluster.await_failed(name);
        assert_eq!((&status["reason"], &status["message"]), (&json!("Evicted"), &json!(message)), "{name}");
        assert_eq!(disruption(&status), None, "{name}: the cause is the pod itself");
        assert_eq!(cluster.await_event(name, "Evicted")["message"], message);
    }
    let within = cluster.await_running("within");
    // Long enough for another look at it.
    std::thread::sleep(Duration::from_secs(25));
    cluster.assert_untouched(&[within]);
    assert_eq!(cluster.condition("DiskPressure")["status"], "False");
    let metrics = cluster.metrics();
    for signal in ["emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit"] {
        let line = format!("kubelet_evictions{{eviction_signal=\"{signal}\"}} 1\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    cluster.end_all();
}

#[test]
fn a_pod_beyond_its_limits_of_local_storage_is_evicted_on_the_built_in_runtime() {
    a_pod_beyond_its_limits_of_local_storage_is_evicted(Runtime::BuiltIn);
}

#[test]
fn a_pod_beyond_its_limits_of_local_storage_is_evicted_on_containerd() {
    a_pod_beyond_its_limits_of_local_storage_is_evicted(Runtime::Containerd);
}

/// Bytes that are available on the filesystem of a directory, as the node sees it.
fn available(cluster: &Cluster, directory: &std::path::Path) -> u64 {
    let output = cluster.testbed.command("stat").args(["-f", "-c", "%S %a"]).arg(directory).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(|number| number.parse::<u64>().unwrap()).product()
}

/// Images and volumes are on one small disk. A pod takes what is missing to the threshold; removing the image that no pod uses
/// gives it back.
#[test]
fn images_that_no_pod_uses_are_removed_before_a_pod_is_evicted() {
    let mut cluster = Cluster::evicting(Runtime::BuiltIn, &json!({}));
    let state = cluster.state();
    faults::disk::separate(&cluster.testbed, &state, 1 << 30).unwrap();
    cluster.flags = vec![format!("--root-dir={}", state.join("kubelet").display())];
    cluster.import();
    let unused = cluster.import_component("kube-controller-manager").name;
    let threshold = available(&cluster, &state) - 25 * MIB;
    cluster.kubelet["evictionHard"] = json!({"nodefs.available": threshold.to_string()});
    cluster.kubelet["imageMinimumGCAge"] = json!("1s");
    let images = || cluster.json(&["image", "list"]).to_string();
    assert!(images().contains(&unused), "{}", images());
    let _agent = cluster.agent();
    cluster.await_node_ready();
    // More than the disk pressure begins at, and less than the image has.
    cluster.apply(&pod("web", 40, &json!({})));
    let before = [cluster.await_running("web")];
    wait_until("the image is removed", || !images().contains(&unused));
    assert!(images().contains("busybox"), "{}", images());
    cluster.await_condition("DiskPressure", "False", "KubeletHasNoDiskPressure");
    cluster.assert_untouched(&before);
    assert!(cluster.events_of("web", "Evicted").is_empty());
    let metrics = cluster.metrics();
    assert!(metrics.contains("kubelet_image_garbage_collected_total{reason=\"space\"} 1\n"), "{metrics}");
    assert!(!metrics.contains("kubelet_evictions{"), "{metrics}");
    cluster.end_all();
}
