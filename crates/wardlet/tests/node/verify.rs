//! `wardlet verify` on a node that has only kubelet and containerd: good pods pass, planted violations are named.

use std::fs;
use std::os::unix::fs::chown;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{Parts, Testbed, images, yardstick};

/// The pod with the host's users.
const PLAIN: &str = "plain";

/// A pod with most kinds of ephemeral volumes.
fn pod(name: &str) -> String {
    let host_users = name == PLAIN;
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "info", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]);
    let mounts: Vec<Value> = ["disk", "memory", "config", "info"]
        .iter()
        .map(|volume| json!({"name": volume, "mountPath": format!("/volumes/{volume}")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "hostUsers": host_users,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": images::BUSYBOX, "imagePullPolicy": "Never",
                "command": ["sh", "-c", "echo x > /volumes/disk/x; echo y > /etc/y; sleep 1000"],
                "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    })
    .to_string()
}

struct Node {
    testbed: Testbed,
    state: tempfile::TempDir,
}

impl Node {
    fn start() -> Self {
        let testbed = Testbed::start(Parts::node()).expect("a node");
        let node = Self { testbed, state: tempfile::tempdir().unwrap() };
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"key": "value"},
        });
        yardstick::apply(&node.testbed, &settings.to_string()).expect("a configMap");
        for name in ["ward", "other", PLAIN] {
            yardstick::apply(&node.testbed, &pod(name)).expect("a pod");
        }
        let mut wait = node.testbed.command("kubectl");
        wait.args(["wait", "--for=condition=Ready", "pod/ward", "pod/other", "pod/plain", "--timeout=180s"]);
        let waited = wait.output().unwrap();
        assert!(waited.status.success(), "{waited:?}");
        node
    }

    fn run(&self, words: &str) -> Output {
        let mut command = self.testbed.command(env!("CARGO_BIN_EXE_wardlet"));
        command.args(words.split_whitespace()).arg("--state-dir").arg(self.state.path().join("none"));
        command.output().unwrap()
    }

    #[track_caller]
    fn verify(&self, words: &str) -> (Option<i32>, Value) {
        let output = self.run(&format!("verify {words} -o json"));
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        (output.status.code(), report)
    }

    #[track_caller]
    fn convicts(&self, pod: &str, what: &str) -> Value {
        let (code, report) = self.verify(pod);
        assert_eq!(code, Some(1), "{report:#}");
        let found = report["violations"].as_array().unwrap().iter().find(|v| v["what"] == what);
        found.unwrap_or_else(|| panic!("no {what} in {report:#}")).clone()
    }
}

struct Planted(Child);

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of the pod that has this block, other than its pause.
fn process_in(base: u64) -> u32 {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_pod = |pid: &u32| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        read("uid_map").split_whitespace().nth(1) == Some(&base.to_string()) && read("comm").trim() != "pause"
    };
    pids.find(of_pod).expect("a process of the pod")
}

#[test]
fn good_pods_of_kubelet_and_containerd_pass_and_planted_violations_are_named() {
    let node = Node::start();
    for words in ["default/ward", "other"] {
        let (code, report) = node.verify(words);
        assert_eq!((code, &report["holds"]), (Some(0), &true.into()), "{report:#}");
        let pod = &report["pods"][0];
        assert_eq!((&pod["namespace"], &pod["block"]["length"]), (&"default".into(), &65_536.into()));
        assert!(pod["processes"].as_u64() >= Some(2) && pod["mounts"].as_u64() > Some(20), "{pod:#}");
    }
    let (code, report) = node.verify("plain");
    assert_eq!((code, &report["pods"][0]["verdict"]), (Some(0), &"notIsolated".into()), "{report:#}");
    let endpoint =
        format!("default/ward --runtime-endpoint unix://{}", node.testbed.containerd_socket().display());
    let (code, report) = node.verify(&endpoint);
    assert_eq!(code, Some(0), "{report:#}");
    let base = report["pods"][0]["block"]["hostId"].as_u64().unwrap();

    let pid = process_in(base);
    chown(format!("/proc/{pid}/root/etc/y"), Some(0), Some(0)).unwrap();
    assert_eq!(node.convicts("default/ward", "fileOwner")["path"], "/etc/y");
    let id = (base + 7).to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "sleep", "100"]).stdin(Stdio::null());
    let planted = Planted(command.spawn().unwrap());
    let began = Instant::now();
    while fs::read_to_string(format!("/proc/{}/comm", planted.0.id())).unwrap().trim() != "sleep" {
        assert!(began.elapsed() < Duration::from_secs(10), "setpriv never became sleep");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(node.convicts("default/ward", "foreignProcess")["pid"], planted.0.id());
    let (code, report) = node.verify("other");
    assert_eq!(code, Some(0), "the other pod is untouched: {report:#}");
}
