//! A cluster with a real scheduler and real controllers, whose node is `wardlet agent`.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod pods;
pub(crate) mod refused;
pub(crate) mod takeover;
pub(crate) mod workloads;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testbed::images::{self, ComponentImage};
use testbed::{Handler, Options, Part, Parts, Testbed, User, Validity, yardstick};
use testkit::{wait_for, wait_until};

/// The node that the agent is.
pub(crate) const NODE: &str = "agent0";

/// What runs the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    BuiltIn,
    Containerd,
}

pub(crate) struct Cluster {
    pub(crate) testbed: Testbed,
    pub(crate) runtime: Runtime,
    /// Fields of the kubelet's configuration besides those that every node here has.
    pub(crate) kubelet: Value,
    /// More flags of the agent.
    pub(crate) flags: Vec<String>,
    /// The host IDs of its pods.
    pool: String,
    dir: tempfile::TempDir,
}

/// Killed when it is dropped.
pub(crate) struct Agent(Child);

impl Agent {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert!(self.0.wait().unwrap().success(), "the agent stops when it is asked to");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("{}", lines[lines.len().saturating_sub(200)..].join("\n"));
        }
        let _ = self.wardlet().args(["stop", "--all", "--grace", "0"]).output();
    }
}

/// 128 blocks that no other node of these tests has at the moment: `verify` sees the processes of all.
fn own_pool() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let blocks = 128 * 65_536;
    let place = std::process::id().wrapping_mul(8).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 100;
    let first = (140 + place) * blocks;
    format!("{first}-{}", first + blocks - 1)
}

impl Cluster {
    /// etcd, API server, scheduler, controller manager, and what the runtime needs. The agent is started by
    /// [`Cluster::agent`].
    pub(crate) fn start(runtime: Runtime) -> Self {
        Self::of(runtime, &[Part::ControllerManager, Part::Scheduler])
    }

    /// The same with these parts.
    pub(crate) fn of(runtime: Runtime, parts: &[Part]) -> Self {
        Self::with(runtime, parts, Vec::new())
    }

    /// The same, and containerd with these runtime handlers.
    pub(crate) fn with(runtime: Runtime, parts: &[Part], handlers: Vec<Handler>) -> Self {
        let mut parts = parts.to_vec();
        parts.extend((runtime == Runtime::Containerd).then_some(Part::Containerd));
        let testbed = Testbed::start(Options { handlers, ..Options::from(Parts::of(&parts)) }).unwrap();
        let dir = tempfile::Builder::new().prefix("wc").tempdir_in("/var/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let cluster = Self { testbed, runtime, kubelet: json!({}), flags: Vec::new(), pool: own_pool(), dir };
        std::fs::create_dir(cluster.state()).unwrap();
        cluster.configure(json!({}));
        cluster
    }

    /// With the node ready.
    pub(crate) fn with_agent(runtime: Runtime) -> (Self, Agent) {
        let cluster = Self::start(runtime);
        cluster.import();
        let agent = cluster.agent();
        cluster.await_node_ready();
        (cluster, agent)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The images of the testbed, which its containerd has already.
    pub(crate) fn import(&self) {
        if self.runtime == Runtime::BuiltIn {
            self.import_archive(&images::made().unwrap().join("archives/busybox.tar"));
        }
    }

    /// The image of a component of the testbed.
    pub(crate) fn import_component(&self, component: &str) -> ComponentImage {
        let image = images::of_component(component).unwrap();
        self.import_archive(&image.archive);
        image
    }

    fn import_archive(&self, archive: &Path) {
        let mut command = match self.runtime {
            Runtime::BuiltIn => self.wardlet(),
            Runtime::Containerd => self.testbed.command("ctr"),
        };
        let words = match self.runtime {
            Runtime::BuiltIn => ["image", "import"],
            Runtime::Containerd => ["images", "import"],
        };
        let imported = command.args(words).arg(archive).output().unwrap();
        assert!(imported.status.success(), "{}", text(&imported));
    }

    /// Writes wardlet's own configuration: these settings of user namespaces, and the pool of this node alone.
    pub(crate) fn configure(&self, mut settings: Value) {
        settings["pool"] = json!({"uids": [self.pool]});
        let text = json!({"userNamespaces": settings}).to_string();
        std::fs::write(self.path("wardlet.yaml"), text).unwrap();
    }

    pub(crate) fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--config").arg(self.path("wardlet.yaml")).arg("--state-dir").arg(self.state());
        command
    }

    /// The output of a command of wardlet that succeeds, as JSON.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.wardlet().args(words).args(["-o", "json"]).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The agent with the credentials of a node; it writes to one log over all of its starts.
    pub(crate) fn agent(&self) -> Agent {
        let common_name = format!("system:node:{NODE}");
        let organization = Some("system:nodes");
        let user = User { file: NODE, common_name: &common_name, organization, validity: Validity::Valid };
        let kubeconfig = self.path("kubeconfig");
        if !kubeconfig.exists() {
            std::fs::copy(self.testbed.user_kubeconfig(&user).unwrap(), &kubeconfig).unwrap();
        }
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = self.wardlet();
        command.arg("agent").args((self.runtime == Runtime::BuiltIn).then_some("--builtin-runtime"));
        command.arg("--run-dir").arg(self.path("run"));
        command.arg("--").args([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={}", self.kubelet_config().display()),
            format!("--cert-dir={}", self.path("pki").display()),
            format!("--hostname-override={NODE}"),
            "--node-ip=10.240.0.10".to_owned(),
        ]);
        command.args(&self.flags);
        Agent(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.testbed.containerd_socket().display())
    }

    /// The report of `wardlet verify` on this pod: other nodes on this machine, of other tests, have pods, too.
    #[track_caller]
    pub(crate) fn verify(&self, pod: &str) -> Value {
        let endpoint = format!("--runtime-endpoint={}", self.endpoint());
        let foreign = (self.runtime == Runtime::Containerd).then_some(endpoint.as_str());
        self.json(&["verify", pod].into_iter().chain(foreign).collect::<Vec<_>>())
    }

    fn kubelet_config(&self) -> PathBuf {
        let pki = |name: &str| self.testbed.kubeconfig().with_file_name(name).display().to_string();
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "tlsCertFile": pki("kubelet-serving.crt"), "tlsPrivateKeyFile": pki("kubelet-serving.key"),
            "authentication": {"x509": {"clientCAFile": pki("ca.crt")}},
            "containerRuntimeEndpoint": self.endpoint(), "cgroupDriver": "cgroupfs", "resolvConf": "",
            "failCgroupV1": false, "podLogsDir": self.path("logs/pods"),
            // However full the disk of this machine is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        });
        config.as_object_mut().unwrap().extend(self.kubelet.as_object().unwrap().clone());
        let file = self.path("kubelet.json");
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// What kubectl prints; it must succeed.
    #[track_caller]
    pub(crate) fn kubectl(&self, words: &str) -> String {
        let output = self.testbed.command("kubectl").args(words.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "kubectl {words}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Objects as kubectl gets them; none if there is no such object or the API server does not answer.
    pub(crate) fn get(&self, words: &str) -> Option<Value> {
        let mut command = self.testbed.command("kubectl");
        command.arg("get").args(words.split_whitespace()).args(["-o", "json", "--request-timeout=10s"]);
        serde_json::from_slice(&command.output().unwrap().stdout).ok()
    }

    /// The items of a list.
    pub(crate) fn list(&self, words: &str) -> Vec<Value> {
        let list = self.get(words).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) {
        yardstick::apply(&self.testbed, &object.to_string()).unwrap();
    }

    /// The agent's metrics, through the API server.
    pub(crate) fn metrics(&self) -> String {
        self.kubectl(&format!("get --raw /api/v1/nodes/{NODE}/proxy/metrics"))
    }

    pub(crate) fn await_node_ready(&self) {
        let node = format!("node {NODE}");
        wait_until("the node is ready", || is_true(&self.get(&node).unwrap_or_default(), "Ready"));
    }

    /// A pod of the default namespace, once this holds of it; `what` says that in words.
    #[track_caller]
    pub(crate) fn await_pod(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("pod {name} {what}"), || self.get(&format!("pod {name}")).filter(&holds))
    }

    /// The pods with this label, once there are so many and all satisfy this.
    #[track_caller]
    pub(crate) fn await_pods(&self, app: &str, count: usize, holds: impl Fn(&Value) -> bool) -> Vec<Value> {
        wait_for(&format!("{count} pods of {app}"), || {
            let pods = self.list(&format!("pods -l app={app}"));
            (pods.len() == count && pods.iter().all(&holds)).then_some(pods)
        })
    }

    #[track_caller]
    pub(crate) fn await_ready_pods(&self, app: &str, count: usize) -> Vec<Value> {
        self.await_pods(app, count, |pod| {
            is_true(pod, "Ready") && pod["metadata"]["deletionTimestamp"].is_null()
        })
    }

    /// The same in another namespace.
    #[track_caller]
    pub(crate) fn await_ready_pods_in(&self, namespace: &str, app: &str, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} pods of {app}"), || {
            let pods = self.list(&format!("pods -n {namespace} -l app={app}"));
            (pods.len() == count && pods.iter().all(|pod| is_true(pod, "Ready"))).then_some(pods)
        })
    }

    /// The leases that are in use.
    pub(crate) fn leases(&self) -> Vec<Value> {
        let all = self.json(&["ids", "list"]);
        all.as_array().unwrap().iter().filter(|lease| lease["state"] == "leased").cloned().collect()
    }

    #[track_caller]
    pub(crate) fn await_no_leases(&self) {
        wait_until("every block is returned", || self.leases().is_empty());
    }
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}\n{err}", output.status)
}

/// Whether an object has this condition.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == condition && one["status"] == "True"))
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

/// A file of a process, empty if it has ended.
pub(crate) fn read_proc(pid: u32, file: &str) -> String {
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join(file)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
