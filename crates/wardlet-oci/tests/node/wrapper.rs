//! A real kubelet that knows nothing of us, on containerd whose usual runtime is our program.

use crate::support;

use std::process::Stdio;

use serde_json::{Value, json};
use support::{Node, ours, proc, text, wait_for};
use testbed::{Containerd, Parts, Shim, images, yardstick};

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

fn pod(name: &str, annotations: &Value, host_users: &Value) -> Value {
    let script = format!(
        "cat /proc/self/uid_map; id -u; stat -c '%u:%g %n' /data /cm/key /secret/key; cat /cm/key /secret/key; \
         wc -c < {TOKEN}; echo said > /dev/stdout; mkdir -p /www; echo hello > /www/index.html; touch /data/mine; \
         trap 'echo last words > /dev/termination-log; exit 0' TERM; httpd -f -p 80 -h /www & wait"
    );
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "hostUsers": host_users,
            "terminationGracePeriodSeconds": 2,
            "containers": [{
                "name": "c", "image": images::BUSYBOX, "imagePullPolicy": "Never",
                "command": ["sh", "-c", script],
                "volumeMounts": [
                    {"name": "d", "mountPath": "/data"},
                    {"name": "cm", "mountPath": "/cm"},
                    {"name": "secret", "mountPath": "/secret"},
                ],
                "readinessProbe": {"httpGet": {"path": "/index.html", "port": 80}, "periodSeconds": 1},
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
    })
}

fn objects(pods: &[&str]) -> Value {
    let asks = json!({"wardlet.dev/user-namespace": "true"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"},
        "data": {"key": "from a ConfigMap\n"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"},
        "stringData": {"key": "from a Secret\n"}});
    let pods = pods.iter().map(|name| match *name {
        "both" => pod(name, &asks, &json!(false)),
        "plain" => pod(name, &json!({}), &Value::Null),
        _ => pod(name, &asks, &Value::Null),
    });
    let items: Vec<Value> = [map, secret].into_iter().chain(pods).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// The first host ID of a pod, as its own container prints it.
fn printed_block(node: &Node, pod: &str) -> u64 {
    let logs = node.said("kubectl", &["logs", pod]);
    let map: Vec<u64> = logs.lines().next().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert_eq!(map[0], 0, "{logs}");
    map[1]
}

/// A node on which these pods are ready.
fn node(containerd: Containerd, pods: &[&str]) -> Node {
    let node = Node::with(containerd, Parts::node(), vec![ours("runc", Shim::Runc)]);
    yardstick::apply(&node.testbed, &objects(pods).to_string()).unwrap();
    let pods = pods.iter().map(|name| format!("pod/{name}"));
    let mut wait = node.testbed.command("kubectl");
    let waited = wait.args(["wait", "--for=condition=Ready", "--timeout=90s"]).args(pods).output().unwrap();
    assert!(waited.status.success(), "{}\n{}", text(&waited), node.said("kubectl", &["describe", "pods"]));
    node
}

/// What holds of the annotated pods `one` and `two`, whatever containerd it is.
fn annotated_pods_hold(node: &Node) -> u64 {
    let leased = node.leased();
    let (one, two) = (printed_block(node, "one"), printed_block(node, "two"));
    assert!(one != two && leased.contains(&one) && leased.contains(&two), "{one} {two} {leased:?}");
    assert_eq!(printed_block(node, "plain"), 0);
    for pod in ["one", "two"] {
        sees_its_volumes(node, pod);
    }
    streams(node, one);
    is_restarted_by_its_probe(node, one);
    for pod in ["default/one", "default/two"] {
        let (code, report) = node.asked(&["verify", pod]);
        assert_eq!((code, &report["holds"]), (Some(0), &json!(true)), "{report:#}");
    }
    one
}

#[test]
fn a_kubelets_annotated_pods_have_blocks_of_their_own_and_its_own_choice_wins() {
    let pods = ["one", "two", "both", "plain"];
    let node = node(Containerd::Pinned, &pods);
    let kubelets = printed_block(&node, "both");
    assert!(kubelets != 0 && !node.leased().contains(&kubelets), "the kubelet's own block was leased again");
    sees_its_volumes(&node, "both");
    let block = annotated_pods_hold(&node);
    goes_without_a_trace(&node, &pods, block);
}

/// The kubelet of today on a runtime that has never heard of user namespaces.
#[test]
fn a_kubelets_annotated_pods_have_blocks_of_their_own_on_the_old_containerd() {
    let pods = ["one", "two", "plain"];
    let node = node(Containerd::Debian, &pods);
    let block = annotated_pods_hold(&node);
    goes_without_a_trace(&node, &pods, block);
}

fn sees_its_volumes(node: &Node, pod: &str) {
    let logs = node.said("kubectl", &["logs", pod]);
    let lines: Vec<&str> = logs.lines().skip(1).collect();
    let seen = ["0", "0:0 /data", "0:0 /cm/key", "0:0 /secret/key", "from a ConfigMap", "from a Secret"];
    assert_eq!(lines[..6], seen, "{logs}");
    assert!(lines[6].parse::<usize>().unwrap() > 100, "a token: {logs}");
    assert_eq!(lines[7], "said");
}

fn streams(node: &Node, block: u64) {
    let mut command = node.testbed.command("kubectl");
    command.args([
        "exec",
        "-i",
        "one",
        "--",
        "sh",
        "-c",
        "cat; cat /proc/self/uid_map; echo words >&2; exit 3",
    ]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"in and out\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(out.starts_with("in and out\n") && out.contains(&format!(" {block} ")), "{}", text(&output));
}

fn is_restarted_by_its_probe(node: &Node, block: u64) {
    node.said("kubectl", &["exec", "one", "--", "rm", "/data/mine"]);
    let state = wait_for("it is restarted and ready", || {
        let pod: Value =
            serde_json::from_str(&node.said("kubectl", &["get", "pod", "one", "-o", "json"])).unwrap();
        let status = pod["status"]["containerStatuses"][0].clone();
        (status["restartCount"] == 1 && status["ready"] == true).then_some(status)
    });
    assert_eq!(state["lastState"]["terminated"]["message"], "last words\n", "{state}");
    assert_eq!(printed_block(node, "one"), block, "the block is the pod's");
}

fn goes_without_a_trace(node: &Node, pods: &[&str], block: u64) {
    assert_ne!(proc::processes_in(block), Vec::<String>::new(), "nothing to look for");
    node.said("kubectl", &[&["delete", "pod"], pods].concat());
    wait_for("its processes are gone", || proc::processes_in(block).is_empty().then_some(()));
    wait_for("no block is leased", || node.leased().is_empty().then_some(()));
}
