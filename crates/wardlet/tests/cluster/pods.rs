//! Pods and workloads of the tests, and where the kernel, the ledger and the commands say that a pod has its host IDs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::images::BUSYBOX;

use super::{Cluster, NODE, name, read_proc, uid};

/// Runs until it is asked to end.
pub(crate) const LASTING: &str = "trap 'kill $!; exit 0' TERM; sleep 100000 & wait";

/// The variable by which a process on the host is known to belong to a pod.
const POD_UID: &str = "POD_UID";

/// The specification of an isolated pod with this command.
pub(crate) fn spec(script: &str) -> Value {
    json!({
        "hostUsers": false, "terminationGracePeriodSeconds": 2,
        "containers": [{
            "name": "app", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
            "env": [{"name": POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        }],
    })
}

pub(crate) fn template(app: &str, spec: &Value) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": spec})
}

/// A workload of the group `apps`: its pods have the label `app` with its name as the value.
pub(crate) fn workload(kind: &str, app: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "template": template(app, spec)},
    })
}

/// A Deployment of pods that a readiness probe finds ready.
pub(crate) fn deployment(app: &str, replicas: usize) -> Value {
    let script =
        "mkdir /www; echo ok > /www/ok; trap 'kill $!; exit 0' TERM; httpd -f -p 8080 -h /www & wait";
    let mut deployment = workload("Deployment", app, &spec(script));
    deployment["spec"]["replicas"] = json!(replicas);
    deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"path": "/ok", "port": 8080}, "periodSeconds": 1});
    deployment
}

/// A pod that is bound to the node already.
pub(crate) fn bound_pod(app: &str, script: &str) -> Value {
    let mut pod = template(app, &spec(script));
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(app);
    pod["metadata"]["namespace"] = json!("default");
    pod["spec"]["nodeName"] = json!(NODE);
    pod
}

pub(crate) fn container_id(pod: &Value) -> &str {
    pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default()
}

pub(crate) fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default()
}

/// When the pod became ready: another time after its readiness has flapped.
pub(crate) fn ready_since(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == "Ready").unwrap()["lastTransitionTime"].clone()
}

/// The processes of pods, each with its pod's UID.
fn processes() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_pod = |pid: u32| {
        let environment = read_proc(pid, "environ");
        let uid = environment.split('\0').find_map(|one| one.strip_prefix(POD_UID)?.strip_prefix('='))?;
        Some((pid, uid.to_owned()))
    };
    pids.filter_map(of_pod).collect()
}

/// A process of the pod with this UID.
pub(crate) fn process_of(uid: &str) -> Option<u32> {
    processes().into_iter().find(|(_, pod)| pod == uid).map(|(pid, _)| pid)
}

/// The ID maps that the kernel has for the processes of each pod: `uid_map` and `gid_map`, by the pod's UID.
pub(crate) fn kernel_maps() -> BTreeMap<String, Vec<[String; 2]>> {
    let mut maps: BTreeMap<String, Vec<[String; 2]>> = BTreeMap::new();
    for (pid, uid) in processes() {
        let read = ["uid_map", "gid_map"]
            .map(|file| read_proc(pid, file).split_whitespace().collect::<Vec<_>>().join(" "));
        if read.iter().all(|map| !map.is_empty()) {
            maps.entry(uid).or_default().push(read);
        }
    }
    maps
}

impl Cluster {
    /// The kernel, the ledger, `ps` and `verify` agree on the block of each of these running pods, and no two have the same.
    #[track_caller]
    pub(crate) fn each_pod_has_its_own_block(&self, pods: &[Value]) {
        for (pod, base) in pods.iter().zip(self.distinct_blocks(pods)) {
            let report = self.verify(uid(pod));
            assert_eq!(report["holds"], true, "{report:#}");
            let verified = of_pod(&report["pods"], pod);
            assert_eq!(verified["verdict"], "isolated", "{}: {report:#}", name(pod));
            assert_eq!(verified["block"]["hostId"], base, "{}: {report:#}", name(pod));
        }
    }

    /// The first host ID of each of these running pods, on which the kernel, the ledger and `ps` agree. No two have the same.
    #[track_caller]
    pub(crate) fn distinct_blocks(&self, pods: &[Value]) -> Vec<u64> {
        let (maps, leases) = (kernel_maps(), self.leases());
        let listed = self.json(&["ps"]);
        let mut blocks = BTreeMap::new();
        let block = |pod| {
            let lease = leases.iter().find(|lease| lease["holder"] == uid(pod));
            let lease = lease.unwrap_or_else(|| panic!("{} has no lease: {leases:?}", name(pod)));
            let base = lease["uidMappings"][0]["hostId"].as_u64().unwrap();
            let expected = ["uidMappings", "gidMappings"].map(|key| {
                let line = &lease[key][0];
                format!("{} {} {}", line["containerId"], line["hostId"], line["length"])
            });
            let found = maps.get(uid(pod)).unwrap_or_else(|| panic!("{} has no process", name(pod)));
            assert!(found.iter().all(|map| *map == expected), "{}: {found:?}, not {expected:?}", name(pod));
            let shown = of_pod(&listed, pod);
            assert_eq!(shown["uidMappings"], lease["uidMappings"], "`wardlet ps` of {}", name(pod));
            assert_eq!(blocks.insert(base, name(pod)), None, "two pods have the block from {base}");
            base
        };
        pods.iter().map(block).collect()
    }
}

/// The entry of a pod in a list of `ps` or `verify`.
fn of_pod(list: &Value, pod: &Value) -> Value {
    let mut all = list.as_array().unwrap().iter();
    all.find(|one| one["uid"] == uid(pod) || one["name"] == name(pod)).cloned().unwrap_or_default()
}
