//! `wardlet agent` as the node of a real API server, with the credentials of a node, on the built-in runtime. The pods are
//! bound to it by hand: a scheduler is not among the components of this tier.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use testbed::{Parts, Testbed, User, Validity, yardstick};
use testkit::{wait_for, wait_until};

pub(crate) const NODE: &str = "agent0";
pub(crate) const IMAGE: &str = "localhost/agent-test:1";

pub(crate) struct Cluster {
    pub(crate) testbed: Testbed,
    pub(crate) dir: tempfile::TempDir,
}

/// Killed when it is dropped.
pub(crate) struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        let _ = self.wardlet().args(["stop", "--all", "--grace", "0"]).output();
        let cgroup = node::Instance::of(&self.dir.path().join("state")).cgroup();
        // Empty once the pods are gone; the kernel refuses to remove any other.
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir(hierarchy.path().join(cgroup.trim_start_matches('/')));
        }
    }
}

/// A configuration with a pool that no other node of these tests has: a block that two have does not become free for either.
pub(crate) fn own_pool() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let first = 2_214_592_512 + NEXT.fetch_add(1, Ordering::Relaxed) * 64 * 65_536;
    let range = format!("{first}-{}", first + 64 * 65_536 - 1);
    json!({"userNamespaces": {"pool": {"uids": [range]}}}).to_string()
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let testbed = Testbed::start(Parts::control_plane()).unwrap();
        let dir = tempfile::Builder::new().prefix("wa").tempdir_in("/var/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(dir.path(), open).unwrap();
        std::fs::write(dir.path().join("wardlet.yaml"), own_pool()).unwrap();
        let cluster = Self { testbed, dir };
        let archive = cluster.dir.path().join("image.tar");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(Command::new(script).arg(IMAGE).arg(&archive).status().unwrap().success());
        let imported = cluster.wardlet().args(["image", "import"]).arg(&archive).status().unwrap();
        assert!(imported.success());
        cluster
    }

    pub(crate) fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--config").arg(self.dir.path().join("wardlet.yaml"));
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command
    }

    /// The flags that make it a node of the API server.
    pub(crate) fn joined(&self) -> [String; 3] {
        let common_name = format!("system:node:{NODE}");
        let organization = Some("system:nodes");
        let user = User { file: NODE, common_name: &common_name, organization, validity: Validity::Valid };
        [
            format!("--kubeconfig={}", self.testbed.user_kubeconfig(&user).unwrap().display()),
            format!("--config={}", self.kubelet_config().display()),
            format!("--cert-dir={}", self.dir.path().join("pki").display()),
        ]
    }

    /// Starts the agent. The pods of a node get their addresses from the cluster.
    pub(crate) fn agent(&self, flags: &[String]) -> Agent {
        let agent = self.agent_without_network(flags);
        if flags.iter().any(|flag| flag.starts_with("--kubeconfig=")) {
            wait_until("the node is registered", || self.get(&["node", NODE]).is_some());
            yardstick::assign_pod_cidrs(&self.testbed, NODE, &["10.244.9.0/24"]).unwrap();
        }
        agent
    }

    pub(crate) fn agent_without_network(&self, flags: &[String]) -> Agent {
        let log = self.dir.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = self.wardlet();
        command.args(["agent", "--builtin-runtime", "--run-dir"]).arg(self.dir.path().join("run"));
        command.arg("--").args(flags).args(["--fail-cgroupv1=false", "--node-ip=10.240.0.10"]);
        command.arg(format!("--hostname-override={NODE}"));
        Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Port 10250 with a certificate that the API server accepts.
    fn kubelet_config(&self) -> std::path::PathBuf {
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

    /// What `kubectl logs` prints.
    pub(crate) fn logs(&self, arguments: &[&str]) -> String {
        let output = self.testbed.command("kubectl").arg("logs").args(arguments).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    pub(crate) fn get(&self, what: &[&str]) -> Option<Value> {
        let output =
            self.testbed.command("kubectl").arg("get").args(what).args(["-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    pub(crate) fn apply(&self, pod: &Value) {
        yardstick::apply(&self.testbed, &pod.to_string()).unwrap();
    }

    /// The pod, once it satisfies this.
    pub(crate) fn pod(&self, pod: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("pod {pod} {what}"), || self.get(&["pod", pod]).filter(&holds))
    }

    pub(crate) fn running(&self, pod: &str) -> Value {
        self.pod(pod, "runs", |found| found["status"]["phase"] == "Running")
    }

    pub(crate) fn leases(&self) -> Vec<Value> {
        let output = self.wardlet().args(["ids", "list", "-o", "json"]).output().unwrap();
        let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        all.into_iter().filter(|lease| lease["state"] == "leased").collect()
    }

    pub(crate) fn delete(&self, pod: &str) {
        let deleted = self.testbed.command("kubectl").args(["delete", "pod", pod, "--timeout=60s"]).status();
        assert!(deleted.unwrap().success());
    }
}

impl Cluster {
    /// Whether the API has an event of this object with this reason and message.
    pub(crate) fn has_event(&self, object: &str, reason: &str, message: &str) -> bool {
        let events = self.get(&["events"]).unwrap_or_default()["items"].clone();
        let is_it = |event: &Value| {
            event["involvedObject"]["name"] == object
                && event["reason"] == reason
                && event["message"] == message
        };
        events.as_array().is_some_and(|all| all.iter().any(is_it))
    }
}

pub(crate) fn container_id(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["containerID"].clone()
}

pub(crate) fn pod(name: &str) -> Value {
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
    let agent = cluster.agent(&cluster.joined());
    wait_until("the node is ready", || {
        let conditions = cluster.get(&["node", NODE]).unwrap_or_default()["status"]["conditions"].clone();
        let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        conditions.as_array().is_some_and(|all| all.iter().any(ready))
    });
    cluster.apply(&pod("one"));
    cluster.apply(&pod("two"));
    let started = ["one", "two"].map(|name| cluster.running(name));
    assert!(
        started.iter().all(|pod| container_id(pod).as_str().unwrap().starts_with("wardlet://")),
        "{started:#?}"
    );
    let blocks: Vec<Value> =
        cluster.leases().iter().map(|lease| lease["uidMappings"][0]["hostId"].clone()).collect();
    assert_eq!(blocks.len(), 2);
    assert_ne!(blocks[0], blocks[1]);

    // Killed, and one of the pods deleted meanwhile: the next agent adopts one and ends the other.
    drop(agent);
    let deleted = cluster.testbed.command("kubectl").args(["delete", "pod", "two", "--wait=false"]).status();
    assert!(deleted.unwrap().success());
    let _agent = cluster.agent(&cluster.joined());
    wait_until("the deleted pod is gone", || cluster.get(&["pod", "two"]).is_none());
    let adopted = cluster.running("one");
    assert_eq!(container_id(&adopted), container_id(&started[0]));
    assert_eq!(adopted["status"]["containerStatuses"][0]["restartCount"], 0);

    cluster.delete("one");
    wait_until("every block is returned", || cluster.leases().is_empty());
}

/// Without an API server at first, and then as a node of one, which shows the pod by a mirror pod.
#[test]
fn a_static_pod_runs_without_an_api_server_and_is_shown_by_a_mirror_pod_with_one() {
    let cluster = Cluster::start();
    let manifests = cluster.dir.path().join("manifests");
    std::fs::create_dir(&manifests).unwrap();
    let mut web = pod("web");
    web["spec"].as_object_mut().unwrap().retain(|key, _| !["volumes", "nodeName"].contains(&key.as_str()));
    web["spec"]["containers"][0].as_object_mut().unwrap().remove("volumeMounts");
    let file = |content: &Value| {
        let next = manifests.join(".next");
        std::fs::write(&next, content.to_string()).unwrap();
        std::fs::rename(next, manifests.join("web.json")).unwrap();
    };
    file(&web);
    let path = format!("--pod-manifest-path={}", manifests.display());
    let alone = cluster.agent(std::slice::from_ref(&path));
    let name = format!("web-{NODE}");
    let listed = || {
        let output = cluster.wardlet().args(["ps", "-o", "json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    wait_until("the static pod runs", || {
        let listed = listed();
        listed.to_string().contains(&name) && listed.to_string().contains("Running")
    });
    let blocks = cluster.leases();
    assert_eq!(blocks.len(), 1);
    drop(alone);

    let _agent = cluster.agent(&[&cluster.joined()[..], &[path]].concat());
    let mirror = cluster.running(&name);
    let hash = mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"].clone();
    assert_eq!(mirror["metadata"]["annotations"]["kubernetes.io/config.hash"], hash);
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_eq!(mirror["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(cluster.leases(), blocks, "it was adopted with its block");

    // A mirror pod that is deleted comes back, and the pod goes on.
    cluster.delete(&name);
    let again = cluster.running(&name);
    assert_ne!(again["metadata"]["uid"], mirror["metadata"]["uid"]);
    assert_eq!(container_id(&again), container_id(&mirror));

    // A changed file is another pod of the same name.
    web["metadata"]["labels"] = json!({"version": "2"});
    file(&web);
    let changed = cluster.pod(&name, "is the changed one", |found| {
        found["metadata"]["labels"]["version"] == "2" && found["status"]["phase"] == "Running"
    });
    assert_ne!(changed["metadata"]["annotations"]["kubernetes.io/config.mirror"], hash);
    assert_ne!(container_id(&changed), container_id(&mirror));

    std::fs::remove_file(manifests.join("web.json")).unwrap();
    wait_until("the mirror pod is gone", || cluster.get(&["pod", &name]).is_none());
    wait_until("every block is returned", || cluster.leases().is_empty());
}

/// The beginning of every token of the API server: `{"alg":` in base64.
const TOKEN: &str = "eyJhbGciOi";

/// Says which user its token belongs to, its mode, whether it is one, what is beside it, and where the API server is.
const INQUIRY: &str = r#"cd /var/run/secrets/kubernetes.io/serviceaccount
{ stat -L -c "%u %a" token; head -c 10 token; echo; cat namespace; echo; cat ca.crt; echo; id -u; echo $KUBERNETES_SERVICE_PORT
} > /dev/termination-log"#;

#[test]
fn a_pod_of_a_user_has_its_token_and_finds_the_api_server() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&cluster.joined());
    let asking = |name: &str, user: Option<u32>| {
        let mut pod = pod(name);
        let spec = pod["spec"].as_object_mut().unwrap();
        spec.retain(|field, _| !["automountServiceAccountToken", "volumes"].contains(&field.as_str()));
        spec.insert("restartPolicy".into(), json!("Never"));
        spec.insert("securityContext".into(), json!({"runAsUser": user}));
        let container = spec["containers"][0].as_object_mut().unwrap();
        container.remove("volumeMounts");
        container.insert("command".into(), json!(["sh", "-c", INQUIRY]));
        cluster.apply(&pod);
    };
    asking("plain", None);
    asking("own", Some(1000));
    // What a controller of the cluster writes into every namespace. The pods wait for it.
    wait_until("the missing object is reported", || {
        let events = cluster.get(&["events"]).unwrap_or_default()["items"].clone();
        let is_reported = |event: &Value| {
            event["reason"] == "FailedMount"
                && event["message"].as_str().is_some_and(|text| text.contains("kube-root-ca.crt"))
        };
        events.as_array().is_some_and(|all| all.iter().any(is_reported))
    });
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "default"},
        "data": {"ca.crt": "the cluster's certificate"},
    }));
    let said = |name: &str| {
        let pod = cluster.pod(name, "succeeds", |pod| pod["status"]["phase"] == "Succeeded");
        let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        state["message"].as_str().unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let rest = |user: &str| ["default", "the cluster's certificate", user, "443"].map(str::to_owned);
    let plain = said("plain");
    assert_eq!((plain[0].as_str(), plain[1].as_str()), ("0 644", TOKEN));
    assert_eq!(plain[2..], rest("0"));
    let own = said("own");
    assert_eq!((own[0].as_str(), own[1].as_str()), ("1000 600", TOKEN));
    assert_eq!(own[2..], rest("1000"));

    // Tokens are in memory only: in no file on the disk, but for the beginnings that the pods have said themselves.
    let mut search = Command::new("find");
    search.arg(cluster.dir.path()).args(["-xdev", "-type", "f", "-size", "-9000k"]);
    let found =
        search.args(["-exec", "grep", "-la", &format!("{TOKEN}[A-Za-z0-9]"), "{}", "+"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    ["plain", "own"].into_iter().for_each(|name| cluster.delete(name));
}

#[test]
fn kubectl_reads_and_follows_logs_through_the_api_server() {
    let cluster = Cluster::start();
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
        "data": {"key": "value"},
    });
    cluster.apply(&settings);
    let _agent = cluster.agent(&cluster.joined());
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
