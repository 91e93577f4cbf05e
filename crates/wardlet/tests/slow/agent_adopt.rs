//! `wardlet agent` whose records are lost: its pods go on, those that no source has any more end, and nothing is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

use crate::agent::{Cluster, container_id, pod};

/// Says when it is asked to end, and takes its time.
const SLOW: &str = "trap 'echo asked; sleep 4; echo ends; exit 0' TERM; while :; do sleep 0.1; done";

impl Cluster {
    /// The kubelet's root directory of the testbed, seen from outside.
    fn root(&self) -> PathBuf {
        self.testbed.record().places.data.join("kubelet")
    }

    fn files(&self, pod: &Value) -> PathBuf {
        self.root().join("pods").join(uid(pod))
    }

    fn records(&self) -> PathBuf {
        self.dir.path().join("state/pods")
    }

    fn pod_logs(&self, pod: &Value) -> PathBuf {
        let name = pod["metadata"]["name"].as_str().unwrap();
        self.dir.path().join("logs/pods").join(format!("default_{name}_{}", uid(pod)))
    }

    fn settings(&self, value: &str) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
            "data": {"key": value},
        }));
    }

    /// Takes a pod out of the API without waiting for its node.
    fn forget(&self, pod: &str) {
        let mut delete = self.testbed.command("kubectl");
        let deleted = delete.args(["delete", "pod", pod, "--force", "--grace-period=0"]).output().unwrap();
        assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    }
}

fn uid(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap()
}

/// The first host ID of the block that a kubelet's record names.
fn recorded_block(files: &Path) -> Value {
    let record: Value = serde_json::from_slice(&fs::read(files.join("userns")).unwrap()).unwrap();
    assert_eq!(record["uidMappings"], record["gidMappings"]);
    record["uidMappings"][0]["hostId"].clone()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn pods_without_records_are_adopted_if_a_source_has_them_and_ended_if_none_has() {
    let cluster = Cluster::start();
    cluster.settings("one");
    let agent = cluster.agent(&cluster.joined());
    let mut slow = pod("slow");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(20);
    slow["spec"]["containers"][0]["command"] = json!(["sh", "-c", SLOW]);
    cluster.apply(&pod("kept"));
    cluster.apply(&slow);
    let (kept, slow) = (cluster.running("kept"), cluster.running("slow"));

    // As a kubelet has it.
    let files = cluster.files(&kept);
    for dir in ["plugins", "plugins_registry", "pod-resources", "pods"] {
        assert_eq!(mode(&cluster.root().join(dir)) & 0o027, 0, "{dir}");
    }
    let volume = files.join("volumes/kubernetes.io~configmap/settings/key");
    assert_eq!(fs::read_to_string(&volume).unwrap(), "one");
    assert!(files.join("etc-hosts").is_file() && files.join("containers/app").is_dir());
    assert!(!cluster.records().join(uid(&kept)).join("volumes").exists());
    let block = recorded_block(&files);
    let has_block = |lease: &Value| lease["uidMappings"][0]["hostId"] == block;
    assert!(cluster.leases().iter().any(has_block), "{block} of {:?}", cluster.leases());

    // Records and ledger are lost, and one of the pods is gone from the API.
    drop(agent);
    cluster.forget("slow");
    fs::remove_dir_all(cluster.records()).unwrap();
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm", "copies", "mark"] {
        let _ = fs::remove_file(cluster.dir.path().join("state").join(file));
    }
    // Of another agent, and of a kubelet that was stopped here.
    let [foreign, left] = ["foreign", "left"].map(|pod| {
        let uid = format!("5f8f7a1e-0000-4000-8000-00000000000{}", pod.len());
        let files = cluster.root().join("pods").join(&uid);
        fs::create_dir_all(files.join("volumes/kubernetes.io~empty-dir/scratch/deep")).unwrap();
        fs::write(files.join("etc-hosts"), "127.0.0.1 localhost\n").unwrap();
        let logs = cluster.dir.path().join(format!("logs/pods/default_{pod}_{uid}"));
        fs::create_dir_all(&logs).unwrap();
        (files, logs)
    });
    let mark = format!("5f8f7a1e-ffff-4000-8000-000000000001\n{}\n", foreign.1.display());
    fs::write(foreign.0.join("wardlet-instance"), mark).unwrap();

    let agent = cluster.agent(&cluster.joined());
    wait_until("the pod is adopted", || cluster.records().join(uid(&kept)).join("agent.json").exists());
    // Killed while the other one ends by its own grace period.
    wait_until("the orphan is asked to end", || {
        let log = fs::read_to_string(cluster.pod_logs(&slow).join("app/0.log")).unwrap_or_default();
        log.contains("asked")
    });
    drop(agent);
    let agent = cluster.agent(&cluster.joined());
    wait_until("nothing of the orphan is left", || {
        !cluster.files(&slow).exists() && !cluster.pod_logs(&slow).exists() && cluster.leases().len() == 1
    });
    let adopted = cluster.running("kept");
    assert_eq!(container_id(&adopted), container_id(&kept));
    assert_eq!(adopted["status"]["containerStatuses"][0]["restartCount"], 0);
    assert!(has_block(&cluster.leases()[0]), "{:?}", cluster.leases());
    wait_until("what the kubelet has left is gone", || !left.0.exists() && !left.1.exists());
    assert!(foreign.0.join("etc-hosts").exists() && foreign.1.exists(), "another's files were removed");

    // Its volumes go on, and nothing of it is left in the end.
    cluster.settings("two");
    wait_until("the volume follows", || fs::read_to_string(&volume).is_ok_and(|text| text == "two"));
    cluster.delete("kept");
    wait_until("nothing of the pod is left", || {
        !files.exists() && !cluster.pod_logs(&kept).exists() && cluster.leases().is_empty()
    });
    drop(agent);
}

/// The agent had its volumes in the state directory before it had a root directory.
#[test]
fn a_pod_of_an_earlier_version_keeps_its_volumes_where_they_are() {
    let cluster = Cluster::start();
    cluster.settings("one");
    let agent = cluster.agent(&cluster.joined());
    cluster.apply(&pod("web"));
    let web = cluster.running("web");
    drop(agent);

    let (files, before) = (cluster.files(&web), cluster.records().join(uid(&web)));
    for name in ["volumes", "volumes.json", "etc-hosts", "containers"] {
        fs::rename(files.join(name), before.join(name)).unwrap();
    }
    fs::remove_dir_all(&files).unwrap();
    let record = before.join("agent.json");
    let mut text: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    text.as_object_mut().unwrap().remove("rootDir").expect("it had a root directory");
    fs::write(&record, text.to_string()).unwrap();

    let _agent = cluster.agent(&cluster.joined());
    cluster.settings("two");
    let volume = before.join("volumes/kubernetes.io~configmap/settings/key");
    wait_until("the volume follows", || fs::read_to_string(&volume).is_ok_and(|text| text == "two"));
    let adopted = cluster.running("web");
    assert_eq!(container_id(&adopted), container_id(&web));
    assert!(!files.exists());
    cluster.delete("web");
    wait_until("nothing of the pod is left", || !before.exists() && cluster.leases().is_empty());

    // The next pod of the name has its volumes in the root directory.
    cluster.apply(&pod("web"));
    let again = cluster.running("web");
    let files =
        wait_for("the directory of the new pod", || Some(cluster.files(&again)).filter(|dir| dir.exists()));
    assert!(files.join("volumes/kubernetes.io~configmap/settings/key").exists());
    cluster.delete("web");
    wait_until("nothing of the pod is left", || !files.exists() && cluster.leases().is_empty());
}
