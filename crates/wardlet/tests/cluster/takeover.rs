//! A node whose agent is exchanged while its pods run: a kubelet's is taken over by `wardlet agent`, handed back, and taken
//! over again. No container restarts, no block changes, readiness does not flap.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{NodeAgent, Part, faults};
use testkit::wait_until;

use super::pods::{
    LASTING, container_id, deployment, kernel_maps, process_of, ready_since, restarts, spec, workload,
};
use super::{Cluster, Runtime, name, text, uid};

/// The node of the testbed.
const NODE: &str = "node0";
/// The ID map of the host's users.
const HOST: &str = "0 0 4294967295";
/// A kubelet brings a volume up to date when it syncs the pod, up to a minute and a half after a change.
const PATIENCE: Duration = Duration::from_secs(200);

/// How many pods there are of each sort.
pub(crate) struct Extent {
    /// Isolated, with a readiness probe.
    pub(crate) web: usize,
    /// Isolated, with volumes of every kind.
    pub(crate) full: usize,
    /// With the host's users.
    pub(crate) host: usize,
}

/// What must not change of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    container: String,
    restarts: u64,
    ready_since: Value,
    /// `uid_map` and `gid_map` of its processes.
    maps: BTreeSet<[String; 2]>,
}

/// By name.
type Identities = BTreeMap<String, Identity>;

/// Isolated pods with all volumes that a kubelet makes itself.
fn full(replicas: usize) -> Value {
    let mut spec = spec(&format!("echo mine > /scratch/mine; echo mine > /memory/mine; {LASTING}"));
    spec["volumes"] = json!([
        {"name": "settings", "configMap": {"name": "settings"}}, {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "scratch", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "about", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]);
    spec["containers"][0]["volumeMounts"] = json!([
        {"name": "settings", "mountPath": "/settings"}, {"name": "keys", "mountPath": "/keys"},
        {"name": "scratch", "mountPath": "/scratch"}, {"name": "memory", "mountPath": "/memory"},
        {"name": "about", "mountPath": "/about"}, {"name": "scratch", "mountPath": "/part", "subPath": "part"},
    ]);
    let mut deployment = workload("Deployment", "full", &spec);
    deployment["spec"]["replicas"] = json!(replicas);
    deployment
}

fn host(replicas: usize) -> Value {
    let mut spec = spec(LASTING);
    spec["hostUsers"] = json!(true);
    let mut deployment = workload("Deployment", "host", &spec);
    deployment["spec"]["replicas"] = json!(replicas);
    deployment
}

/// A pod of no Deployment, with all volumes.
fn pod(name: &str) -> Value {
    let spec = full(1)["spec"]["template"]["spec"].clone();
    let metadata = json!({"name": name, "namespace": "default", "labels": {"alone": name}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// A file as a process of the pod sees it.
fn inside(uid: &str, path: &str) -> String {
    let pid = process_of(uid).unwrap_or_else(|| panic!("pod {uid} has no process"));
    fs::read_to_string(format!("/proc/{pid}/root{path}")).unwrap_or_default().trim().to_owned()
}

#[track_caller]
fn patiently(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(500));
    }
}

struct Node {
    cluster: Cluster,
    extent: Extent,
}

/// Exchanges the agent of the node, and looks at its pods each time.
pub(crate) fn run(extent: Extent) {
    let parts = [Part::ControllerManager, Part::Scheduler, Part::Kubelet];
    let mut node = Node { cluster: Cluster::of(Runtime::Containerd, &parts), extent };
    let before = node.start();
    node.refuses_an_agent_beside_the_kubelet();
    for (stage, agent) in [NodeAgent::Wardlet, NodeAgent::Kubelet, NodeAgent::Wardlet].into_iter().enumerate()
    {
        let gone = node.exchange(agent);
        node.is_as_before(&before, &format!("stage {stage}"));
        node.come_and_go(&format!("visitor-{stage}"));
        node.follows(&format!("value-{stage}"));
        node.is_gone(&gone);
        node.is_as_before(&before, &format!("the end of stage {stage}"));
        node.verifies();
    }
    node.empties();
}

impl Node {
    /// The kubelet's root directory of the testbed, seen from outside.
    fn files(&self) -> PathBuf {
        self.cluster.testbed.record().places.data.join("kubelet/pods")
    }

    /// The command line of the testbed's agent.
    fn wardlet(&self) -> Command {
        let state = self.cluster.testbed.record().places.data.join("wardlet");
        let mut command = self.cluster.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--state-dir").arg(state);
        command
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.wardlet().args(words).args(["-o", "json"]).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn apps(&self) -> [(&'static str, usize); 3] {
        [("web", self.extent.web), ("full", self.extent.full), ("host", self.extent.host)]
    }

    fn set(&self, value: &str) {
        for (kind, name, field) in [("ConfigMap", "settings", "data"), ("Secret", "keys", "stringData")] {
            let metadata = json!({"name": name, "namespace": "default"});
            self.cluster.apply(
                &json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, field: {"key": value}}),
            );
        }
    }

    /// Starts the pods with the kubelet.
    fn start(&self) -> Identities {
        self.set("first");
        let mut web = deployment("web", self.extent.web);
        web["spec"]["template"]["spec"]["automountServiceAccountToken"] = json!(false);
        for object in [web, full(self.extent.full), host(self.extent.host)] {
            self.cluster.apply(&object);
        }
        let pods = self.pods();
        let isolated = pods.iter().filter(|pod| pod["spec"]["hostUsers"] == false);
        assert_eq!(isolated.count(), self.extent.web + self.extent.full);
        self.identities()
    }

    /// All pods of the Deployments, once all are ready.
    fn pods(&self) -> Vec<Value> {
        self.apps().iter().flat_map(|(app, count)| self.cluster.await_ready_pods(app, *count)).collect()
    }

    fn identities(&self) -> Identities {
        let pods = self.pods();
        let mut maps = kernel_maps();
        let mut blocks = BTreeSet::new();
        let identity = |pod: &Value| {
            let maps: BTreeSet<[String; 2]> = maps.remove(uid(pod)).unwrap_or_default().into_iter().collect();
            let map = maps.first().unwrap_or_else(|| panic!("{} has no process", name(pod)));
            assert_eq!(maps.len(), 1, "{}: {maps:?}", name(pod));
            let is_isolated = pod["spec"]["hostUsers"] == false;
            assert_eq!(map.iter().all(|map| map != HOST), is_isolated, "{}: {map:?}", name(pod));
            assert!(!is_isolated || blocks.insert(map[0].clone()), "two pods have {}", map[0]);
            let container = container_id(pod).to_owned();
            let identity =
                Identity { container, restarts: restarts(pod), ready_since: ready_since(pod), maps };
            (format!("{} {}", name(pod), uid(pod)), identity)
        };
        pods.iter().map(identity).collect()
    }

    #[track_caller]
    fn is_as_before(&self, before: &Identities, when: &str) {
        assert_eq!(&self.identities(), before, "at {when}");
        for pod in self.cluster.list("pods -l app=full") {
            let uid = uid(&pod);
            let files = ["/scratch/mine", "/memory/mine"].map(|file| inside(uid, file));
            assert_eq!(files, ["mine", "mine"], "{} at {when}", name(&pod));
            assert_eq!(inside(uid, "/about/name"), name(&pod));
            let token = inside(uid, "/var/run/secrets/kubernetes.io/serviceaccount/token");
            assert_eq!(token.split('.').count(), 3, "{} has no token at {when}", name(&pod));
        }
    }

    /// Puts this agent in the place of the one that runs. Meanwhile two pods are deleted, one of them by force; their
    /// directories are returned.
    fn exchange(&mut self, agent: NodeAgent) -> Vec<PathBuf> {
        ["leaving", "forced"].iter().for_each(|name| self.cluster.apply(&pod(name)));
        self.cluster.kubectl("wait --for=condition=Ready pod/leaving pod/forced --timeout=100s");
        let doomed: Vec<Value> = ["leaving", "forced"]
            .iter()
            .map(|name| self.cluster.get(&format!("pod {name}")).unwrap())
            .collect();
        faults::kill(&self.cluster.testbed, Part::Kubelet).unwrap();
        self.cluster.kubectl("delete pod leaving --wait=false");
        self.cluster.kubectl("delete pod forced --force --grace-period=0");
        self.cluster.testbed.replace_node_agent(agent).unwrap();
        // The node is called ready by the last word of the agent before, and both report the same version.
        wait_until("the new agent answers", || {
            let mut get = self.cluster.testbed.command("kubectl");
            let metrics =
                get.args(["get", "--raw", &format!("/api/v1/nodes/{NODE}/proxy/metrics")]).output().unwrap();
            let metrics = String::from_utf8_lossy(&metrics.stdout).into_owned();
            // Only a program in Go has these.
            let is_kubelet = metrics.contains("go_goroutines");
            metrics.contains("kubelet_") && is_kubelet == (agent == NodeAgent::Kubelet)
        });
        doomed.iter().map(|pod| self.files().join(uid(pod))).collect()
    }

    /// A new pod runs in a block of its own, and nothing of it stays.
    fn come_and_go(&self, name: &str) {
        self.cluster.apply(&pod(name));
        self.cluster.kubectl(&format!("wait --for=condition=Ready pod/{name} --timeout=100s"));
        let visitor = self.cluster.get(&format!("pod {name}")).unwrap();
        let maps = kernel_maps();
        let own = maps.get(uid(&visitor)).unwrap_or_else(|| panic!("{name} has no process"));
        assert!(own[0][0] != HOST, "{own:?}");
        let pods = self.pods();
        let others = pods.iter().filter_map(|pod| maps.get(uid(pod))).flatten();
        assert!(others.into_iter().all(|map| map[0] != own[0][0]), "{name} shares {own:?}");
        self.cluster.kubectl(&format!("delete pod {name} --timeout=100s"));
        self.is_gone(&[self.files().join(uid(&visitor))]);
    }

    /// Changes of objects reach the mounts that containers have had from the start.
    fn follows(&self, value: &str) {
        self.set(value);
        let pods = self.cluster.list("pods -l app=full");
        let has =
            |pod: &Value| ["/settings/key", "/keys/key"].iter().all(|path| inside(uid(pod), path) == value);
        patiently(&format!("every pod sees {value}"), || pods.iter().all(has));
    }

    fn is_gone(&self, dirs: &[PathBuf]) {
        patiently("nothing of deleted pods is left", || {
            let alone = self.cluster.get("pods -l alone").is_some_and(|list| list["items"] == json!([]));
            alone && dirs.iter().all(|dir| !dir.exists())
        });
    }

    /// Every isolated pod is alone with its IDs, whichever agent runs the node.
    fn verifies(&self) {
        let endpoint =
            format!("--runtime-endpoint=unix://{}", self.cluster.testbed.containerd_socket().display());
        for pod in self.pods().iter().filter(|pod| pod["spec"]["hostUsers"] == false) {
            let report = self.json(&["verify", uid(pod), &endpoint]);
            assert_eq!(report["holds"], true, "{report:#}");
        }
    }

    /// `wardlet agent` ends before it touches anything while the kubelet runs.
    fn refuses_an_agent_beside_the_kubelet(&self) {
        let state = self.cluster.path("beside");
        let mut command = self.cluster.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--state-dir").arg(&state).args(["agent", "--"]);
        let output = command.args(self.cluster.testbed.arguments(Part::Kubelet).unwrap()).output().unwrap();
        let said = text(&output);
        assert!(!output.status.success() && said.contains("runs with the root directory"), "{said}");
        assert!(said.contains("systemctl disable --now kubelet") && !state.exists(), "{said}");
    }

    /// With the last pod, everything that any of the agents has made for pods is gone.
    fn empties(&self) {
        self.cluster.kubectl("scale deployment web full host --replicas=0");
        wait_until("no pod is left", || {
            self.cluster.get("pods").is_some_and(|list| list["items"] == json!([]))
        });
        let is_leased = |lease: &Value| lease["state"] == "leased";
        patiently("every block is returned", || {
            !self.json(&["ids", "list"]).as_array().unwrap().iter().any(is_leased)
        });
        patiently("no directory of a pod is left", || fs::read_dir(self.files()).unwrap().next().is_none());
        let supervisor = self.cluster.testbed.supervisor().unwrap().pid;
        let mounts = fs::read_to_string(format!("/proc/{supervisor}/mountinfo")).unwrap();
        let left: Vec<&str> = mounts.lines().filter(|line| line.contains("/var/lib/kubelet/pods/")).collect();
        assert_eq!(left, Vec::<&str>::new());
        patiently("no record of a pod is left", || self.json(&["ps"]) == json!([]));
    }
}
