//! `wardlet agent` as the node of a real API server, with the credentials of a node, on the built-in runtime. The pods are
//! bound to it by hand: a scheduler is not among the components of this tier.

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

impl Cluster {
    fn start() -> Self {
        let testbed = Testbed::start(Parts::control_plane()).unwrap();
        let dir = tempfile::Builder::new().prefix("wa").tempdir_in("/var/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let cluster = Self { testbed, dir };
        let archive = cluster.dir.path().join("image.tar");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(Command::new(script).arg(IMAGE).arg(&archive).status().unwrap().success());
        let imported = cluster.wardlet().args(["image", "import"]).arg(&archive).status().unwrap();
        assert!(imported.success());
        cluster
    }

    fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command
    }

    fn agent(&self) -> Agent {
        let common_name = format!("system:node:{NODE}");
        let organization = Some("system:nodes");
        let user = User { file: NODE, common_name: &common_name, organization, validity: Validity::Valid };
        let kubeconfig = self.testbed.user_kubeconfig(&user).unwrap();
        let log =
            std::fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = self.wardlet();
        command.args(["agent", "--builtin-runtime", "--run-dir"]).arg(self.dir.path().join("run"));
        command.arg("--").arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.arg(format!("--config={}", self.kubelet_config().display()));
        command.arg(format!("--cert-dir={}", self.dir.path().join("pki").display()));
        command.args([&format!("--hostname-override={NODE}"), "--node-ip=10.240.0.10"]);
        Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Port 10250 with a certificate that the API server accepts.
    fn kubelet_config(&self) -> std::path::PathBuf {
        let pki = |name: &str| self.testbed.kubeconfig().with_file_name(name).display().to_string();
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "tlsCertFile": pki("kubelet-serving.crt"), "tlsPrivateKeyFile": pki("kubelet-serving.key"),
            "authentication": {"x509": {"clientCAFile": pki("ca.crt")}},
        });
        let file = self.dir.path().join("kubelet.json");
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// What `kubectl logs` prints.
    fn logs(&self, arguments: &[&str]) -> String {
        let output = self.testbed.command("kubectl").arg("logs").args(arguments).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    fn get(&self, what: &[&str]) -> Option<Value> {
        let output =
            self.testbed.command("kubectl").arg("get").args(what).args(["-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn apply(&self, pod: &Value) {
        yardstick::apply(&self.testbed, &pod.to_string()).unwrap();
    }

    fn running(&self, pod: &str) -> Value {
        let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        wait_for(&format!("{pod} runs: {}", log()), || {
            self.get(&["pod", pod]).filter(|found| found["status"]["phase"] == "Running")
        })
    }

    fn leases(&self) -> Vec<Value> {
        let output = self.wardlet().args(["ids", "list", "-o", "json"]).output().unwrap();
        let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        all.into_iter().filter(|lease| lease["state"] == "leased").collect()
    }

    fn delete(&self, pod: &str) {
        let deleted = self.testbed.command("kubectl").args(["delete", "pod", pod, "--timeout=60s"]).status();
        assert!(deleted.unwrap().success());
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": NODE, "hostUsers": false, "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
            "containers": [{
                "name": "app", "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
                "volumeMounts": [{"name": "settings", "mountPath": "/settings"}],
            }],
        },
    })
}

#[test]
fn pods_of_an_api_server_run_in_blocks_of_their_own_and_outlive_the_agent() {
    let cluster = Cluster::start();
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
        "data": {"key": "value"},
    }));
    let agent = cluster.agent();
    wait_until("the node is ready", || {
        let conditions = cluster.get(&["node", NODE]).unwrap_or_default()["status"]["conditions"].clone();
        let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        conditions.as_array().is_some_and(|all| all.iter().any(ready))
    });
    cluster.apply(&pod("one"));
    cluster.apply(&pod("two"));
    let started = ["one", "two"].map(|name| cluster.running(name));
    let ids = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    assert!(started.iter().all(|pod| ids(pod).as_str().unwrap().starts_with("wardlet://")), "{started:#?}");
    let blocks: Vec<Value> =
        cluster.leases().iter().map(|lease| lease["uidMappings"][0]["hostId"].clone()).collect();
    assert_eq!(blocks.len(), 2);
    assert_ne!(blocks[0], blocks[1]);

    // Killed, and one of the pods deleted meanwhile: the next agent adopts one and ends the other.
    drop(agent);
    let deleted = cluster.testbed.command("kubectl").args(["delete", "pod", "two", "--wait=false"]).status();
    assert!(deleted.unwrap().success());
    let _agent = cluster.agent();
    wait_until("the deleted pod is gone", || cluster.get(&["pod", "two"]).is_none());
    let adopted = cluster.running("one");
    assert_eq!(ids(&adopted), ids(&started[0]));
    assert_eq!(adopted["status"]["containerStatuses"][0]["restartCount"], 0);

    cluster.delete("one");
    wait_until("every block is returned", || cluster.leases().is_empty());
}

#[test]
fn kubectl_reads_and_follows_logs_through_the_api_server() {
    let cluster = Cluster::start();
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
        "data": {"key": "value"},
    });
    cluster.apply(&settings);
    let _agent = cluster.agent();
    wait_until("the node is there", || cluster.get(&["node", NODE]).is_some());
    let node = cluster.get(&["node", NODE]).unwrap();
    assert_eq!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
    let mut writes = pod("writes");
    let script = "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three; sleep 5; echo last";
    writes["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    writes["spec"]["restartPolicy"] = json!("Never");
    let mut crashes = pod("crashes");
    crashes["spec"]["containers"][0]["command"] =
        json!(["sh", "-c", "cat /proc/sys/kernel/random/uuid; sleep 1; exit 1"]);
    cluster.apply(&crashes);
    cluster.apply(&writes);
    cluster.running("writes");
    wait_until("the log is there", || cluster.logs(&["writes"]).starts_with("one\ntwo\nthree\n"));
    // Ends with the container.
    assert_eq!(cluster.logs(&["writes", "--follow"]), "one\ntwo\nthree\nlast\n");
    assert_eq!(cluster.logs(&["writes", "--tail=2"]), "three\nlast\n");
    assert_eq!(cluster.logs(&["writes", "--limit-bytes=5"]), "one\nt");
    assert_eq!(cluster.logs(&["writes", "--since=1h", "--tail=1"]), "last\n");
    let stamped = cluster.logs(&["writes", "--timestamps", "--tail=1"]);
    assert!(
        stamped.ends_with("Z last\n") && stamped.len() == "2026-03-01T12:30:05.000000000Z last\n".len(),
        "{stamped}"
    );
    assert!(
        cluster
            .logs(&["writes", "--previous"])
            .contains("previous terminated container \"app\" in pod \"writes\" not found")
    );
    let (now, before) = wait_for("two instances have written", || {
        let [now, before] =
            [&["crashes"][..], &["crashes", "--previous"]].map(|arguments| cluster.logs(arguments));
        let is_one = |text: &String| text.trim().len() == 36;
        let count =
            cluster.get(&["pod", "crashes"])?["status"]["containerStatuses"][0]["restartCount"].as_u64()?;
        let is_running =
            cluster.get(&["pod", "crashes"])?["status"]["containerStatuses"][0]["state"]["running"]
                .is_object();
        (count > 0 && is_running && is_one(&now) && is_one(&before) && now != before).then_some((now, before))
    });
    assert_ne!(now, before);
    cluster.delete("crashes");
    cluster.delete("writes");
    wait_until("every block is returned", || cluster.leases().is_empty());
}
