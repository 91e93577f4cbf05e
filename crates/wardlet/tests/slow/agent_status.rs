//! Statuses, events and metrics of the same pods from a real kubelet and from `wardlet agent`, on the same containerd, field by
//! field.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testbed::{Part, Parts, Testbed, User, Validity, faults, yardstick};
use testkit::{wait_for, wait_for_success};

use crate::agent_metrics;

const KUBELET: &str = "node0";
/// The node that the agent is in the kubelet's place.
pub(crate) const AGENT: &str = "agent0";
const ADDRESS: &str = "10.240.0.10";
const IMAGE: &str = "localhost/busybox:1";
const RUNS: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

/// Fields that differ, and why.
const DIFFERENCES: [(&str, &str); 4] = [
    ("resources", "the kubelet reads them back from the pod's cgroup; those of containers are reported"),
    ("allocatedResources", "as resources, of the pod as a whole"),
    (
        "missing.containerStatuses[0].state.waiting.message",
        "ours names the field that refers to the missing object",
    ),
    ("noimage.containerStatuses[0].state.waiting.message", "ours says the same in other words"),
];

/// Reasons of events that only one of both has, and why.
const ONLY_ONE: [(&str, &str); 3] = [
    ("MissingClusterDNS", "the testbed's kubelet has no cluster DNS; ours does not report it"),
    ("FailedMount", "ours names the object, the kubelet the call; both name the volume's object"),
    ("Failed", "the cause is in our words"),
];

fn container(name: &str, script: &str) -> Value {
    json!({"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]})
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut all = json!({"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 2});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": all})
}

fn with(mut container: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        container[key] = value.clone();
    }
    container
}

fn pods(node: &str) -> Vec<Value> {
    let runs = |name: &str| container(name, RUNS);
    let resources = json!({"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}});
    let mounts = json!([{"name": "v", "mountPath": "/v", "readOnly": true}, {"name": "v", "mountPath": "/w"},
        {"name": "v", "mountPath": "/x", "readOnly": true, "recursiveReadOnly": "IfPossible"}]);
    let of_missing = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]);
    let mut all = vec![
        pod(
            "plain",
            &json!({
                "containers": [with(runs("app"), &json!({"volumeMounts": mounts, "resources": resources}))],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "securityContext": {"runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000]},
            }),
        ),
        pod("isolated", &json!({"hostUsers": false, "containers": [runs("app")]})),
        pod(
            "init",
            &json!({
                "initContainers": [container("second", "exit 0"), with(runs("side"), &json!({"restartPolicy": "Always"}))],
                "containers": [runs("b"), runs("a")],
            }),
        ),
        pod(
            "gated",
            &json!({
                "readinessGates": [{"conditionType": "example.com/gate"}], "containers": [runs("app")],
            }),
        ),
        pod("done", &json!({"restartPolicy": "Never", "containers": [container("app", "exit 0")]})),
        pod("failed", &json!({"restartPolicy": "Never", "containers": [container("app", "exit 3")]})),
        pod("deadline", &json!({"activeDeadlineSeconds": 15, "containers": [runs("app")]})),
        pod(
            "noimage",
            &json!({
                "containers": [{"name": "app", "image": "localhost/none:1", "imagePullPolicy": "Never"}],
            }),
        ),
        pod("missing", &json!({"containers": [with(runs("app"), &json!({"env": of_missing}))]})),
        pod(
            "nomount",
            &json!({
                "containers": [with(runs("app"), &json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))],
                "volumes": [{"name": "v", "configMap": {"name": "none"}}],
            }),
        ),
        pod(
            "initfails",
            &json!({
                "restartPolicy": "Never", "initContainers": [container("first", "exit 4")], "containers": [runs("app")],
            }),
        ),
    ];
    for pod in &mut all {
        pod["spec"]["nodeName"] = json!(node);
    }
    all
}

/// Whether a pod is where it stays.
fn is_settled(pod: &Value) -> bool {
    let status = &pod["status"];
    let waits = |reason: &str| status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason;
    let is_ready = |kind: &str| {
        let mut all = status["conditions"].as_array().into_iter().flatten();
        all.any(|one| one["type"] == kind && one["status"] == "True")
    };
    let ended = || {
        let mut all = status["conditions"].as_array().into_iter().flatten();
        all.any(|one| one["type"] == "PodReadyToStartContainers" && one["status"] == "False")
    };
    match pod["metadata"]["name"].as_str().unwrap() {
        "done" => status["phase"] == "Succeeded" && ended(),
        "failed" | "deadline" | "initfails" => status["phase"] == "Failed" && ended(),
        "noimage" => waits("ErrImageNeverPull"),
        "missing" => waits("CreateContainerConfigError"),
        "nomount" => waits("ContainerCreating"),
        "gated" => is_ready("ContainersReady"),
        _ => is_ready("Ready"),
    }
}

struct Reported {
    statuses: BTreeMap<String, BTreeMap<String, Value>>,
    events: BTreeSet<(String, String, String)>,
    metrics: String,
}

fn kubectl(testbed: &Testbed, arguments: &[&str]) -> String {
    let output = testbed.command("kubectl").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn list(testbed: &Testbed, kind: &str) -> Vec<Value> {
    let text = kubectl(testbed, &["get", kind, "-o", "json"]);
    serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone()
}

/// Runs the pods on a node and returns what it reports of them.
fn reported(testbed: &Testbed, node: &str) -> Reported {
    let all = json!({"apiVersion": "v1", "kind": "List", "items": pods(node)});
    yardstick::apply(testbed, &all.to_string()).unwrap();
    let settled = || Some(list(testbed, "pods")).filter(|pods| pods.iter().all(is_settled));
    wait_for(&format!("the pods of {node} settle"), settled);
    let image = format!("--image={IMAGE}");
    let debug = |name: &str, more: &[&str], script: &str| {
        let fixed = ["debug", "plain", &image, "--image-pull-policy=Never", "--profile=general", "-c", name];
        kubectl(testbed, &[&fixed[..], more, &["--", "sh", "-c", script]].concat());
    };
    debug("ends", &[], "exit 5");
    debug("beside", &["--target=app"], RUNS);
    let gate = r#"{"status":{"conditions":[{"type":"example.com/gate","status":"False"}]}}"#;
    kubectl(testbed, &["patch", "pod", "gated", "--subresource=status", "-p", gate]);
    let pods = wait_for("the changes arrive", || {
        let pods = list(testbed, "pods");
        let of =
            |name: &str| pods.iter().find(|pod| pod["metadata"]["name"] == name).unwrap()["status"].clone();
        let added = of("plain")["ephemeralContainerStatuses"].clone();
        let has_added = added.as_array().is_some_and(|all| {
            all.len() == 2
                && all[0]["state"]["running"].is_object()
                && all[1]["state"]["terminated"].is_object()
        });
        let is_gated = of("gated").to_string().contains("but False");
        (has_added && is_gated).then_some(pods)
    });
    let uids: BTreeMap<String, String> = pods
        .iter()
        .map(|pod| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))
        })
        .collect();
    let statuses = pods.iter().map(|pod| {
        let mut fields = BTreeMap::new();
        flatten("", &pod["status"], &mut fields);
        (pod["metadata"]["name"].as_str().unwrap().to_owned(), fields)
    });
    let of_pods =
        list(testbed, "events").into_iter().filter(|event| event["involvedObject"]["kind"] == "Pod");
    let events = of_pods.map(|event| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["involvedObject"];
        let place = format!("{}:{}", text(&object["name"]), text(&object["fieldPath"]));
        let uid = uids.get(&text(&object["name"])).cloned().unwrap_or_default();
        let reason = format!("{} {}", text(&event["type"]), text(&event["reason"]));
        (place, reason, text(&event["message"]).replace(&uid, "UID"))
    });
    let (statuses, events) = (statuses.collect(), events.collect());
    // While the pods have volumes. A request is measured when it is answered: the second answer has the first one.
    let scrape = || kubectl(testbed, &["get", "--raw", &format!("/api/v1/nodes/{node}/proxy/metrics")]);
    let _ = scrape();
    let metrics = scrape();
    kubectl(testbed, &["delete", "pods", "--all", "--timeout=120s"]);
    kubectl(testbed, &["delete", "events", "--all"]);
    Reported { statuses, events, metrics }
}

/// All fields by their path. Times and addresses are there or not; IDs are reduced to their runtime.
fn flatten(path: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), value, found);
            }
        }
        other => {
            let key = path.rsplit('.').next().unwrap_or_default();
            let is_address = path.starts_with("podIP");
            let is_time = ["lastTransitionTime", "startedAt", "finishedAt", "startTime"].contains(&key);
            let kept = match key {
                "containerID" => {
                    json!(other.as_str().and_then(|id| id.split_once("://")).map(|(name, _)| name))
                }
                _ if (is_time || is_address) && !other.is_null() => json!("set"),
                _ => other.clone(),
            };
            found.insert(path.to_owned(), kept);
        }
    }
}

/// Killed when it is dropped.
pub(crate) struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the agent on the containerd of a testbed.
pub(crate) fn agent(testbed: &Testbed, dir: &std::path::Path) -> Agent {
    let pki = |name: &str| testbed.kubeconfig().with_file_name(name).display().to_string();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{}", testbed.containerd_socket().display()),
        "tlsCertFile": pki("kubelet-serving.crt"), "tlsPrivateKeyFile": pki("kubelet-serving.key"),
        "authentication": {"x509": {"clientCAFile": pki("ca.crt")}},
        "failCgroupV1": false, "podLogsDir": dir.join("logs/pods"),
        // However full the disk of this machine is.
        "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
    });
    let file = dir.join("kubelet.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let common_name = format!("system:node:{AGENT}");
    let organization = Some("system:nodes");
    let user = User { file: AGENT, common_name: &common_name, organization, validity: Validity::Valid };
    let kubeconfig = testbed.user_kubeconfig(&user).unwrap();
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let mut command: Command = testbed.command(testkit::programs().join("wardlet"));
    command
        .arg("--state-dir")
        .arg(dir.join("state"))
        .args(["agent", "--run-dir"])
        .arg(dir.join("run"))
        .arg("--");
    command.arg(format!("--kubeconfig={}", kubeconfig.display()));
    command.arg(format!("--config={}", file.display()));
    command.arg(format!("--cert-dir={}", dir.join("pki").display()));
    command.args([format!("--hostname-override={AGENT}"), format!("--node-ip={ADDRESS}")]);
    Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap())
}

#[test]
fn statuses_events_and_metrics_are_those_of_a_kubelet() {
    let testbed = Testbed::start(Parts::of(&[Part::Kubelet])).unwrap();
    let _ = testbed.command("kubectl").args(["create", "serviceaccount", "default"]).output();
    let kubelet = reported(&testbed, KUBELET);
    // A kubelet kills containers of pods that it does not know.
    faults::kill(&testbed, Part::Kubelet).unwrap();
    let dir = tempfile::Builder::new().prefix("wa").tempdir_in("/var/tmp").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let running = agent(&testbed, dir.path());
    wait_for_success("the node is ready", || {
        let output = testbed.command("kubectl").args(["get", "node", AGENT, "-o", "json"]).output().unwrap();
        let node: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|one| one["type"] == "Ready");
        if ready.is_some_and(|ready| ready["status"] == "True") {
            return Ok(());
        }
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        Err(format!("{ready:?}; the agent's log:\n{log}"))
    });
    let ours = reported(&testbed, AGENT);
    drop(running);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();

    let mut differences = Vec::new();
    for (pod, fields) in &kubelet.statuses {
        let own = &ours.statuses[pod];
        for key in fields.keys().chain(own.keys()).collect::<BTreeSet<_>>() {
            let is_known = |(known, _): &(&str, &str)| {
                key == known || key.starts_with(&format!("{known}.")) || format!("{pod}.{key}") == *known
            };
            if fields.get(key) != own.get(key) && !DIFFERENCES.iter().any(is_known) {
                differences.push(format!(
                    "{pod}: {key}: kubelet {:?}, agent {:?}",
                    fields.get(key),
                    own.get(key)
                ));
            }
        }
    }
    let is_known = |event: &&(String, String, String)| {
        ONLY_ONE.iter().any(|(reason, _)| event.1.split_once(' ').is_some_and(|(_, own)| own == *reason))
    };
    let only = |name: &str, one: &Reported, other: &Reported| {
        let missing = one.events.difference(&other.events).filter(|event| !is_known(event));
        missing.map(|event| format!("event only of the {name}: {event:?}")).collect::<Vec<_>>()
    };
    differences.extend(only("kubelet", &kubelet, &ours));
    differences.extend(only("agent", &ours, &kubelet));
    differences.extend(agent_metrics::differences(&kubelet.metrics, &ours.metrics));
    assert!(differences.is_empty(), "{}\n{log}", differences.join("\n"));
    // A status that is refused because its pod was just removed is no warning.
    assert!(!log.contains("cannot write its status"), "{log}");
}
