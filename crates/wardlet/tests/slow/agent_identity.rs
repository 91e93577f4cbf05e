//! `wardlet agent` that joins a cluster with a bootstrap token, and is killed while it does; its serving certificate.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Part, Parts, Testbed, yardstick};
use testkit::{Dice, rounds_or, wait_for, wait_until};

const NODE: &str = "joined0";
const TOKEN: &str = "abcdef.0123456789abcdef";

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
        // Empty; the kernel refuses to remove any other.
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir(hierarchy.path().join(cgroup.trim_start_matches('/')));
        }
    }
}

impl Cluster {
    /// As kubeadm leaves it: a token that nodes may join with, and requests of nodes that are approved.
    fn start() -> Self {
        let testbed = Testbed::start(Parts::of(&[Part::ControllerManager])).unwrap();
        let dir = tempfile::Builder::new().prefix("wi").tempdir_in("/var/tmp").unwrap();
        let cluster = Self { testbed, dir };
        let (id, secret) = TOKEN.split_once('.').unwrap();
        cluster.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
            "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
        }));
        let approves = "system:certificates.k8s.io:certificatesigningrequests";
        for (name, role, group) in [
            ("bootstrap", "system:node-bootstrapper".to_owned(), "system:bootstrappers"),
            ("first", format!("{approves}:nodeclient"), "system:bootstrappers"),
            ("next", format!("{approves}:selfnodeclient"), "system:nodes"),
        ] {
            cluster.apply(&json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "Group", "name": group}],
            }));
        }
        cluster
    }

    fn apply(&self, object: &Value) {
        yardstick::apply(&self.testbed, &object.to_string()).unwrap();
    }

    fn pki(&self, name: &str) -> String {
        self.testbed.kubeconfig().with_file_name(name).display().to_string()
    }

    fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command
    }

    /// An agent on a machine that has nothing but a bootstrap kubeconfig; what it makes is in the directory `home`.
    fn agent(&self, home: &str, settings: &Value) -> Agent {
        let path = |name: &str| self.dir.path().join(home).join(name);
        std::fs::create_dir_all(path("")).unwrap();
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"x509": {"clientCAFile": self.pki("ca.crt")}},
            "failCgroupV1": false, "podLogsDir": path("logs/pods"),
            // However full the disk of this machine is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        });
        config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        std::fs::write(path("config.json"), config.to_string()).unwrap();
        let bootstrap = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {
                "server": "https://10.240.0.10:6443", "certificate-authority": self.pki("ca.crt"),
            }}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(path("bootstrap.conf"), bootstrap.to_string()).unwrap();
        let log =
            std::fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = self.wardlet();
        command.args(["agent", "--builtin-runtime", "--run-dir"]).arg(self.dir.path().join("run")).arg("--");
        for (flag, file) in [
            ("config", "config.json"),
            ("kubeconfig", "etc/kubelet.conf"),
            ("bootstrap-kubeconfig", "bootstrap.conf"),
            ("cert-dir", "pki"),
        ] {
            command.arg(format!("--{flag}={}", path(file).display()));
        }
        command.arg(format!("--hostname-override={NODE}")).arg("--node-ip=10.240.0.10");
        Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap())
    }

    fn get(&self, what: &[&str]) -> Option<Value> {
        let output =
            self.testbed.command("kubectl").arg("get").args(what).args(["-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn kubectl(&self, arguments: &[&str]) {
        assert!(self.testbed.command("kubectl").args(arguments).status().unwrap().success(), "{arguments:?}");
    }

    fn await_ready(&self) {
        wait_until("the node is ready", || {
            let conditions = self.get(&["node", NODE]).unwrap_or_default()["status"]["conditions"].clone();
            let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            conditions.as_array().is_some_and(|all| all.iter().any(ready))
        });
    }
}

#[test]
fn an_agent_that_is_killed_while_it_joins_has_joined_in_the_end() {
    let cluster = Cluster::start();
    let mut dice = Dice::thrown("agent killed while it joins");
    for rotates in [false, true] {
        let home = format!("rotates-{rotates}");
        let settings = json!({"rotateCertificates": rotates, "enableServer": false});
        for _ in 0..rounds_or(8) {
            let agent = cluster.agent(&home, &settings);
            std::thread::sleep(Duration::from_millis(u64::try_from(dice.below(120)).unwrap()));
            drop(agent);
        }
        let agent = cluster.agent(&home, &settings);
        cluster.await_ready();
        let pki = cluster.dir.path().join(&home).join("pki");
        wait_until("the key of the request is removed", || !pki.join("kubelet-client.key.tmp").exists());
        assert!(std::fs::read_link(pki.join("kubelet-client-current.pem")).unwrap().starts_with(&pki));
        assert!(!pki.join("kubelet-client-updated.pem").exists());
        drop(agent);
        cluster.kubectl(&["delete", "node", NODE]);
    }
}

#[test]
fn port_10250_serves_the_certificate_of_an_approved_request() {
    let cluster = Cluster::start();
    let _agent = cluster.agent("serving", &json!({"rotateCertificates": true, "serverTLSBootstrap": true}));
    cluster.await_ready();
    let serves = || {
        let mut curl = cluster.testbed.command("curl");
        curl.args(["--silent", "--max-time", "5", "--cacert", &cluster.pki("ca.crt")]);
        curl.arg("https://10.240.0.10:10250/healthz").output().unwrap().status.success()
    };
    let request = wait_for("a request for the serving certificate", || {
        let all = cluster.get(&["csr"])?["items"].clone();
        let is_serving = |one: &&Value| one["spec"]["signerName"] == "kubernetes.io/kubelet-serving";
        all.as_array()?.iter().find(is_serving).cloned()
    });
    assert_eq!(request["spec"]["username"], format!("system:node:{NODE}"));
    assert_eq!(request["spec"]["usages"], json!(["digital signature", "server auth"]));
    assert!(!serves(), "it serves before its request is approved");
    cluster.kubectl(&["certificate", "approve", request["metadata"]["name"].as_str().unwrap()]);
    wait_until("port 10250 has a certificate of the cluster's authority", serves);
}
