//! Which pods of a real API server `wardlet agent` rejects, refuses for now, ends for critical pods and isolates.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testbed::{Parts, Testbed, User, Validity, yardstick};
use testkit::{wait_for, wait_until};

const NODE: &str = "agent0";
const IMAGE: &str = "localhost/agent-test:1";

struct Cluster {
    testbed: Testbed,
    dir: tempfile::TempDir,
}

/// Killed when it is dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default());
        }
        let _ = self.wardlet().args(["stop", "--all", "--grace", "0"]).output();
        let cgroup = node::Instance::of(&self.dir.path().join("state")).cgroup();
        // Empty once the pods are gone; the kernel refuses to remove any other.
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir(hierarchy.path().join(cgroup.trim_start_matches('/')));
        }
    }
}

impl Cluster {
    fn start(parts: Parts) -> Self {
        let testbed = Testbed::start(parts).unwrap();
        let dir = tempfile::Builder::new().prefix("wa").tempdir_in("/var/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let cluster = Self { testbed, dir };
        cluster.configure("");
        let archive = cluster.dir.path().join("image.tar");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(Command::new(script).arg(IMAGE).arg(&archive).status().unwrap().success());
        assert!(cluster.wardlet().args(["image", "import"]).arg(&archive).status().unwrap().success());
        cluster
    }

    /// Writes wardlet's own configuration.
    fn configure(&self, text: &str) {
        std::fs::write(self.dir.path().join("wardlet.yaml"), text).unwrap();
    }

    fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--config").arg(self.dir.path().join("wardlet.yaml"));
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command
    }

    fn kubelet_config(&self) -> PathBuf {
        let pki = |name: &str| self.testbed.kubeconfig().with_file_name(name).display().to_string();
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "tlsCertFile": pki("kubelet-serving.crt"), "tlsPrivateKeyFile": pki("kubelet-serving.key"),
            "authentication": {"x509": {"clientCAFile": pki("ca.crt")}},
            "failCgroupV1": false, "podLogsDir": self.dir.path().join("logs/pods"),
            // However full the disk of this machine is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        });
        let file = self.dir.path().join("kubelet.json");
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// Starts an agent, and waits until its node is ready.
    fn agent(&self) -> Agent {
        let common_name = format!("system:node:{NODE}");
        let organization = Some("system:nodes");
        let user = User { file: NODE, common_name: &common_name, organization, validity: Validity::Valid };
        let log = self.dir.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = self.wardlet();
        command.args(["agent", "--builtin-runtime", "--run-dir"]).arg(self.dir.path().join("run"));
        command.arg("--").args([
            format!("--kubeconfig={}", self.testbed.user_kubeconfig(&user).unwrap().display()),
            format!("--config={}", self.kubelet_config().display()),
            format!("--cert-dir={}", self.dir.path().join("pki").display()),
            format!("--hostname-override={NODE}"),
            "--node-ip=10.240.0.10".to_owned(),
        ]);
        let agent = Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        wait_until("the node is registered", || self.get(&["node", NODE]).is_some());
        // A controller manager assigns some itself.
        let _ = yardstick::assign_pod_cidrs(&self.testbed, NODE, &["10.244.9.0/24"]);
        wait_until("the node is ready", || {
            let node = self.get(&["node", NODE]).unwrap_or_default();
            let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            node["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready))
        });
        agent
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.testbed.command("kubectl").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn get(&self, what: &[&str]) -> Option<Value> {
        let output =
            self.testbed.command("kubectl").arg("get").args(what).args(["-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn apply(&self, object: &Value) {
        yardstick::apply(&self.testbed, &object.to_string()).unwrap();
    }

    fn pod(&self, pod: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("pod {pod} {what}"), || self.get(&["pod", pod]).filter(&holds))
    }

    fn running(&self, pod: &str) -> Value {
        self.pod(pod, "runs", |found| found["status"]["phase"] == "Running")
    }

    fn failed(&self, pod: &str) -> Value {
        self.pod(pod, "fails", |found| found["status"]["phase"] == "Failed")
    }

    /// The messages of the events with this reason of pods whose names begin so.
    fn events(&self, pod: &str, reason: &str) -> Vec<String> {
        let events = self.get(&["events"]).unwrap_or_default()["items"].clone();
        let is_it = |event: &&Value| {
            event["reason"] == reason
                && event["involvedObject"]["name"].as_str().is_some_and(|name| name.starts_with(pod))
        };
        let all = events.as_array().cloned().unwrap_or_default();
        all.iter()
            .filter(is_it)
            .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The agent's metrics, through the API server.
    fn metrics(&self) -> String {
        self.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE}/proxy/metrics")])
    }

    fn leases(&self) -> Vec<Value> {
        let output = self.wardlet().args(["ids", "list", "-o", "json"]).output().unwrap();
        let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        all.into_iter().filter(|lease| lease["state"] == "leased").collect()
    }

    fn delete(&self, pod: &str) {
        self.kubectl(&["delete", "pod", pod, "--timeout=60s"]);
    }
}

fn container_id(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["containerID"].clone()
}

/// A pod that runs until it is ended, with more in its spec.
fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": NODE, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "app", "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
            }],
        },
    });
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn requesting(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name, &json!({}));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    pod
}

#[test]
fn pods_are_rejected_as_by_a_kubelet_and_admitted_ones_are_not_judged_again() {
    let cluster = Cluster::start(Parts::control_plane());
    let agent = cluster.agent();
    let node = cluster.get(&["node", NODE]).unwrap();
    let cpu: u64 = node["status"]["allocatable"]["cpu"].as_str().unwrap().parse().unwrap();

    let mut port = pod("port", &json!({"hostNetwork": true}));
    port["spec"]["containers"][0]["ports"] = json!([{"containerPort": 18_080}]);
    cluster.apply(&port);
    cluster.running("port");
    cluster.kubectl(&["label", "node", NODE, "disk=ssd"]);
    cluster.apply(&pod("placed", &json!({"nodeSelector": {"disk": "ssd"}})));
    let placed = cluster.running("placed");

    let mut same_port = port.clone();
    same_port["metadata"]["name"] = json!("same-port");
    let sysctl = json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}});
    let capacity = cpu * 1000;
    let rejected = [
        (
            requesting("greedy", "1000"),
            "OutOfcpu",
            format!(
                "Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: {capacity}"
            ),
        ),
        (
            pod("elsewhere", &json!({"nodeSelector": {"disk": "hdd"}})),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned(),
        ),
        (
            same_port,
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
                .to_owned(),
        ),
        (
            pod("sysctl", &sysctl),
            "SysctlForbidden",
            "forbidden sysctl: \"kernel.msgmax\" not allowlisted".to_owned(),
        ),
    ];
    rejected.iter().for_each(|(pod, ..)| cluster.apply(pod));
    for (pod, reason, message) in &rejected {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let status = cluster.failed(name)["status"].clone();
        assert_eq!(status["reason"], *reason);
        assert_eq!(status["message"], format!("Pod was rejected: {message}"));
        assert_eq!(status["containerStatuses"], Value::Null);
        wait_until("the rejection is an event", || cluster.events(name, reason) == [message.as_str()]);
    }
    let metrics = cluster.metrics();
    for (_, reason, _) in &rejected {
        let line = format!("kubelet_admission_rejections_total{{reason=\"{reason}\"}} 1\n");
        assert!(metrics.contains(&line), "{metrics}");
    }

    // The node has lost the label; the pod stays. What was rejected stays rejected.
    drop(agent);
    cluster.kubectl(&["label", "node", NODE, "disk-"]);
    let _agent = cluster.agent();
    cluster.apply(&requesting("victim", "1"));
    cluster.apply(&requesting("bystander", "1m"));
    cluster.running("victim");
    cluster.running("bystander");
    let adopted = cluster.running("placed");
    assert_eq!(container_id(&adopted), container_id(&placed));
    assert_eq!(adopted["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(cluster.failed("greedy")["status"]["reason"], "OutOfcpu");

    // A critical pod needs more than is free.
    let mut critical = requesting("critical", &format!("{}m", capacity - 500));
    critical["spec"]["priorityClassName"] = json!("system-node-critical");
    cluster.apply(&critical);
    let victim = cluster.failed("victim")["status"].clone();
    assert_eq!(victim["reason"], "Preempting");
    assert_eq!(victim["message"], "Preempted in order to admit critical pod");
    let conditions = victim["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("TerminationByKubelet")));
    cluster.running("critical");
    cluster.running("bystander");
    wait_until("the preemption is an event", || !cluster.events("victim", "Preempting").is_empty());
    for pod in ["critical", "greedy", "same-port", "victim", "bystander", "placed", "port"] {
        cluster.delete(pod);
    }
}

#[test]
fn a_pod_that_is_over_returns_its_block_and_keeps_status_and_logs() {
    let cluster = Cluster::start(Parts::control_plane());
    let agent = cluster.agent();
    let mut done = pod("done", &json!({"hostUsers": false, "restartPolicy": "Never"}));
    done["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    done["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    done["spec"]["containers"][0]["command"] = json!(["sh", "-c", "touch /scratch/file; echo words; exit 3"]);
    cluster.apply(&done);
    let over = cluster.failed("done");
    assert_eq!(over["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    let held = || {
        let output = cluster.wardlet().args(["ids", "list", "-o", "json"]).output().unwrap();
        serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap()
    };
    wait_until("the block is vacant", || {
        held().iter().all(|lease| !["leased", "draining"].contains(&lease["state"].as_str().unwrap()))
    });
    assert_eq!(cluster.kubectl(&["logs", "done"]), "words\n");

    // The next agent finds it over, and does not run it again.
    drop(agent);
    let _agent = cluster.agent();
    cluster.apply(&pod("later", &json!({"hostUsers": false})));
    cluster.running("later");
    let still = cluster.failed("done");
    assert_eq!(still["status"]["containerStatuses"], over["status"]["containerStatuses"]);
    assert_eq!(cluster.kubectl(&["logs", "done"]), "words\n");
    assert_eq!(cluster.leases().len(), 1);
    cluster.delete("done");
    cluster.delete("later");
    wait_until("every block is returned", || cluster.leases().is_empty());
}

const WHEN_SAFE: &str = "policy: {isolate: whenSafe}\nuserNamespaces: {maxIdsPerPod: 131072}\n";
const OFF: &str = "policy: {isolate: whenSafe, disabledFeatures: [UserNamespacesSupport]}\n";

/// The operator's switch changes new pods only.
#[test]
fn pods_of_an_api_server_are_isolated_by_policy_and_the_switch_changes_new_pods_only() {
    let cluster = Cluster::start(Parts::control_plane());
    cluster.configure(WHEN_SAFE);
    let agent = cluster.agent();
    // Prints the mapping of its user namespace, and exits after three seconds.
    let mut safe = pod("safe", &json!({}));
    safe["spec"]["containers"][0]["command"] = json!([
        "sh",
        "-c",
        "cat /proc/self/uid_map; trap 'exit 0' TERM; n=0; while [ $n -lt 30 ]; do n=$((n+1)); sleep 0.1; done; exit 1"
    ]);
    cluster.apply(&safe);
    cluster.apply(&pod("host", &json!({"hostNetwork": true})));
    cluster.running("safe");
    cluster.running("host");
    let block = cluster.leases();
    assert_eq!(
        block.len(),
        1,
        "one pod loses nothing by a user namespace, the other one has the host's network"
    );
    let host_id = block[0]["uidMappings"][0]["hostId"].as_u64().unwrap().to_string();
    let metrics = cluster.metrics();
    for line in [
        "wardlet_pods{user_namespace=\"own\"} 1\n",
        "wardlet_pods{user_namespace=\"host\"} 1\n",
        "wardlet_id_blocks{state=\"leased\"} 1\n",
        "kubelet_started_user_namespaced_pods_total 1\n",
        "kubelet_started_pods_total 2\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }

    // Off: the running pod restarts into its block, a new one runs without.
    drop(agent);
    cluster.configure(OFF);
    let agent = cluster.agent();
    cluster.apply(&pod("without", &json!({"hostUsers": false})));
    cluster.running("without");
    wait_until("the missing isolation is reported", || {
        !cluster.events("without", "UserNamespaceDisabled").is_empty()
    });
    let count = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0);
    let before = count(&cluster.get(&["pod", "safe"]).unwrap());
    cluster.pod("safe", "is restarted", |found| count(found) > before && container_id(found).is_string());
    let mapping = wait_for("it says its mapping", || {
        let output = cluster.testbed.command("kubectl").args(["logs", "safe"]).output().unwrap();
        Some(String::from_utf8(output.stdout).unwrap()).filter(|text| text.contains("65536"))
    });
    assert_eq!(mapping.split_whitespace().collect::<Vec<_>>(), ["0", host_id.as_str(), "65536"]);
    assert_eq!(cluster.leases(), block);
    let line = "wardlet_pods_without_isolation_total{gate=\"UserNamespacesSupport\"} 1\n";
    assert!(cluster.metrics().contains(line), "{}", cluster.metrics());

    // On again: the pod that runs without goes on, and its successor has a block.
    drop(agent);
    cluster.configure(WHEN_SAFE);
    let _agent = cluster.agent();
    let mut again = pod("again", &json!({"hostUsers": false}));
    again["metadata"]["annotations"] = json!({"wardlet.dev/ids": "131072"});
    cluster.apply(&again);
    cluster.running("again");
    let kept = cluster.running("without");
    assert_eq!(count(&kept), 0);
    let lengths = || {
        let length = |lease: &Value| lease["uidMappings"][0]["length"].as_u64().unwrap();
        let mut lengths: Vec<u64> = cluster.leases().iter().map(length).collect();
        lengths.sort_unstable();
        lengths
    };
    assert_eq!(lengths(), [65_536, 131_072]);
    cluster.delete("without");
    cluster.apply(&pod("without", &json!({"hostUsers": false})));
    cluster.running("without");
    assert_eq!(lengths(), [65_536, 65_536, 131_072]);
    ["safe", "host", "without", "again"].into_iter().for_each(|pod| cluster.delete(pod));
    wait_until("every block is returned", || cluster.leases().is_empty());
}
