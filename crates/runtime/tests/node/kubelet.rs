//! A real kubelet, with the API server and all behind it, on our runtime.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use testbed::{Containerd, Options, Parts, Testbed, images, yardstick};
use testkit::wait_for;

/// Long enough for a loaded machine; nothing is asserted about it.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// How kubectl's streams go through the API server: today's way and that of old.
const WAYS: [&str; 2] = ["true", "false"];

#[test]
fn a_kubelet_runs_a_pod_in_a_user_namespace_on_it() {
    testkit::programs();
    let options = Options { containerd: Containerd::Wardlet, ..Options::from(Parts::node()) };
    let node = Node(Testbed::start(options).unwrap());
    let runtime = node.get(&["nodes"])["items"][0]["status"].clone();
    assert!(
        runtime["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap().starts_with("wardlet://"),
        "{runtime}"
    );
    assert_eq!(runtime["runtimeHandlers"][0]["features"]["userNamespaces"], true, "{runtime}");

    yardstick::apply(&node.0, &manifest().to_string()).unwrap();
    node.kubectl(&["wait", "--for=condition=Ready", "pod/ward", "--timeout=60s"]);
    let block = shows_its_volumes_and_map(&node);
    for way in WAYS {
        streams_of_exec_and_its_code_come_through(&node, way, block);
        forwards_ports(&node, way);
    }
    a_failed_probe_restarts_it(&node);
    deleted_it_leaves_no_process_device_or_cgroup(&node, block);
    node.0.down().unwrap();
}

/// From which host ID on its block is.
fn shows_its_volumes_and_map(node: &Node) -> u32 {
    let logs = node.kubectl(&["logs", "ward"]);
    let lines: Vec<&str> = logs.lines().collect();
    let map: Vec<u32> = lines[0].split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert!(map[0] == 0 && map[1] >= 65_536 && map[2] == 65_536, "{logs}");
    assert!(lines[1].starts_with("uid=0(root) gid=0(root)"), "{logs}");
    assert_eq!(lines[2..5], ["0:0 /data", "from a ConfigMap", "from a Secret"], "{logs}");
    assert!(lines[5].parse::<usize>().unwrap() > 100, "a token: {logs}");
    map[1]
}

fn streams_of_exec_and_its_code_come_through(node: &Node, way: &str, block: u32) {
    let mut command = node.0.command("kubectl");
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", way);
    command.args(["exec", "-i", "ward", "--", "sh", "-c"]);
    command.arg("cat; cat /proc/self/uid_map; echo words >&2; exit 3");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"in and out\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, words) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{out}{words}");
    assert!(out.starts_with("in and out\n") && out.contains(&format!(" {block} ")), "{out}{words}");
    assert!(words.starts_with("words\n"), "{words}");
}

fn forwards_ports(node: &Node, way: &str) {
    let mut command = node.0.command("kubectl");
    command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", way).args(["port-forward", "pod/ward", "18080:8080"]);
    let _forward = Ended(command.stdout(Stdio::null()).spawn().unwrap());
    let page = wait_for("the forwarded port answers", || {
        let mut curl = node.0.command("curl");
        let output = curl.args(["-s", "--max-time", "5", "http://127.0.0.1:18080/index.html"]).output();
        Some(texts(&output.unwrap()).0).filter(|page| !page.is_empty())
    });
    assert_eq!(page, "hello\n");
}

fn a_failed_probe_restarts_it(node: &Node) {
    node.kubectl(&["exec", "ward", "--", "rm", "/data/mine"]);
    let state = wait_for("it is restarted and ready", || {
        let status = node.get(&["pod", "ward"])["status"]["containerStatuses"][0].clone();
        (status["restartCount"] == 1 && status["ready"] == true).then_some(status)
    });
    let last = &state["lastState"]["terminated"];
    assert_eq!((last["exitCode"].clone(), last["reason"].clone()), (json!(0), json!("Completed")), "{state}");
    let before = node.kubectl(&["logs", "ward", "--previous"]);
    assert!(before.contains("from a ConfigMap"), "{before}");
}

fn deleted_it_leaves_no_process_device_or_cgroup(node: &Node, block: u32) {
    let uid = node.get(&["pod", "ward"])["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_ne!(processes(block), Vec::<String>::new(), "nothing to look for");
    node.kubectl(&["delete", "pod", "ward"]);
    wait_for("the pod's control groups are gone", || {
        let left = node.run(&["find", "/sys/fs/cgroup", "-name", &format!("pod{uid}")]);
        left.is_empty().then_some(())
    });
    assert_eq!(processes(block), Vec::<String>::new());
    let devices = node.run(&["ip", "-br", "link", "show", "type", "veth"]);
    assert!(devices.lines().all(|line| line.starts_with("node0")), "{devices}");
    // Other instances of wardlet on this machine have their pinned namespaces elsewhere.
    let mounts = node.run(&["cat", "/proc/mounts"]);
    let is_left = |line: &str| line.starts_with("nsfs /run/wardlet-testbed/") || line.contains(&uid);
    assert!(!mounts.lines().any(is_left), "{mounts}");
}

fn manifest() -> Value {
    let command = format!(
        "trap 'exit 0' TERM; cat /proc/self/uid_map; id; stat -c '%u:%g %n' /data; cat /cm/key /secret/key; \
         wc -c < {TOKEN}; touch /data/mine; mkdir -p /www; echo hello > /www/index.html; \
         httpd -f -p 8080 -h /www & wait"
    );
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ward"},
        "spec": {
            "hostUsers": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": images::BUSYBOX, "imagePullPolicy": "Never",
                "command": ["sh", "-c", command],
                "volumeMounts": [
                    {"name": "d", "mountPath": "/data"},
                    {"name": "cm", "mountPath": "/cm"},
                    {"name": "secret", "mountPath": "/secret"},
                ],
                "readinessProbe": {"httpGet": {"path": "/index.html", "port": 8080}, "periodSeconds": 1},
                "livenessProbe": {
                    "exec": {"command": ["test", "-e", "/data/mine"]},
                    "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 1,
                },
            }],
            "volumes": [
                {"name": "d", "emptyDir": {}},
                {"name": "cm", "configMap": {"name": "cm"}},
                {"name": "secret", "secret": {"secretName": "secret"}},
            ],
        },
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"},
        "data": {"key": "from a ConfigMap\n"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"},
        "stringData": {"key": "from a Secret\n"}});
    json!({"apiVersion": "v1", "kind": "List", "items": [map, secret, pod]})
}

struct Node(Testbed);

impl Node {
    fn kubectl(&self, arguments: &[&str]) -> String {
        self.run(&[&["kubectl"], arguments].concat())
    }

    fn get(&self, what: &[&str]) -> Value {
        serde_json::from_str(&self.kubectl(&[&["get", "-o", "json"], what].concat())).unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        let mut command: Command = self.0.command(words[0]);
        let output = command.args(&words[1..]).output().unwrap();
        let (out, said) = texts(&output);
        assert!(output.status.success(), "{words:?}: {said}\n{}", self.runtime_log());
        out
    }

    fn runtime_log(&self) -> String {
        fs::read_to_string(self.0.record().places.log("containerd")).unwrap_or_default()
    }
}

/// A process that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The host's processes with an effective user in the block that starts here.
fn processes(block: u32) -> Vec<String> {
    let uid = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let own = fs::read_dir("/proc").unwrap().flatten();
    own.filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok())
        .filter(|status| uid(status).is_some_and(|uid| uid >= block && uid - block < 65_536))
        .map(|status| status.lines().next().unwrap_or_default().to_owned())
        .collect()
}
