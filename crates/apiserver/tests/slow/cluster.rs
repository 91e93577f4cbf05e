//! A cluster of the testbed, reached as node0, and kubectl as its administrator.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent::ports::{BoxFuture, PodRef, StatusSink};
use agent::{ContainerView, InstanceView, PodStatus, StateView};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use testbed::{Part, Parts, Testbed, faults};
use types::PodUid;

pub(crate) const NODE: &str = "node0";
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Cluster(Mutex<Testbed>);

impl Cluster {
    /// The one that all tests share.
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self(Mutex::new(testbed::shared().unwrap())))
    }

    /// One whose API server can be killed.
    pub(crate) fn own() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Testbed::start(Parts::control_plane()).unwrap())))
    }

    /// Runs the test in the testbed's network, with a client that has the credentials of node0.
    pub(crate) fn run<F: Future<Output = ()> + Send + 'static>(
        &self,
        test: impl FnOnce(Client) -> F + Send + 'static,
    ) {
        let (supervisor, path) = {
            let testbed = self.0.lock().unwrap();
            (testbed.supervisor().unwrap().pid, testbed.node_kubeconfig())
        };
        let join = move || {
            let namespace = File::open(format!("/proc/{supervisor}/ns/net")).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(3).enable_all().on_thread_start(join).build().unwrap();
        let test = async move {
            let kubeconfig = Kubeconfig::read_from(path).unwrap();
            let config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
            test(Client::try_from(config).unwrap()).await;
        };
        // A spawned task runs on the runtime's threads, which are in the testbed's network.
        if let Err(error) = runtime.block_on(async { tokio::spawn(test).await }) {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    fn try_kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut kubectl = self.0.lock().unwrap().command("kubectl");
        kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// What kubectl prints; it must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments, "");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn create(&self, object: &Value) -> Value {
        let output = self.try_kubectl(&["create", "-o", "json", "-f", "-"], &object.to_string());
        assert!(output.status.success(), "{object}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The object; `None` if there is none.
    pub(crate) fn get(&self, namespace: &str, kind: &str, name: &str) -> Option<Value> {
        let output =
            self.try_kubectl(&["get", "-n", namespace, kind, name, "-o", "json", "--ignore-not-found"], "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The Node of these tests.
    pub(crate) fn node(&self) -> Value {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}).to_string();
        // Another test may have created it.
        self.try_kubectl(&["create", "-f", "-"], &node);
        self.get("default", "node", NODE).unwrap()
    }

    /// A new namespace with the service account that pods need.
    pub(crate) fn namespace(&self, name: &str) -> String {
        let name = format!("{name}-{}", std::process::id());
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        let metadata = json!({"name": "default", "namespace": name});
        self.create(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}));
        name
    }

    pub(crate) fn kill_api_server(&self) {
        faults::kill(&self.0.lock().unwrap(), Part::Apiserver).unwrap();
    }

    pub(crate) fn restart_api_server(&self) {
        self.0.lock().unwrap().restart(Part::Apiserver).unwrap();
    }
}

/// A pod of node0.
pub(crate) fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": NODE, "automountServiceAccountToken": false,
            "containers": [{"name": "app", "image": "example.com/app:1"}]}
    })
}

/// The pod as the agent refers to it.
pub(crate) fn reference(pod: &Value) -> PodRef {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
    PodRef { namespace: text("namespace"), name: text("name"), uid: PodUid::new(text("uid")).unwrap() }
}

/// Waits until there is a value.
pub(crate) async fn eventually<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A status of the agent's for a pod with the container `app`.
pub(crate) fn status(phase: &str, state: StateView) -> PodStatus {
    let is_running = matches!(state, StateView::Running { .. });
    let condition = |kind: &str, status: bool| agent::ConditionView {
        kind: kind.into(),
        status: if status { "True" } else { "False" }.into(),
        reason: if status { "" } else { "ContainersNotReady" }.into(),
        message: String::new(),
        since: 1_772_368_205_999,
    };
    let conditions = vec![
        condition("PodScheduled", true),
        condition("PodReadyToStartContainers", true),
        condition("Initialized", true),
        condition("ContainersReady", is_running),
        condition("Ready", is_running),
    ];
    let id = "0123abcd".to_owned();
    PodStatus {
        phase: phase.into(),
        stage: if is_running { "Syncing" } else { "Terminated" }.into(),
        reason: None,
        message: None,
        started: 1_772_368_200_000,
        ips: vec!["10.88.0.7".into()],
        conditions,
        init: vec![],
        containers: vec![ContainerView {
            name: "app".into(),
            state,
            last: None,
            ready: is_running,
            started: is_running,
            restarts: 0,
            instance: Some(InstanceView {
                id,
                image: "example.com/app:1".into(),
                image_id: "sha256:1".into(),
                user: None,
            }),
            previous_id: None,
        }],
        ephemeral: vec![],
        generation: Some(1),
        resources: None,
    }
}

/// A local sink that keeps nothing beyond the process.
#[derive(Default)]
pub(crate) struct Local(Mutex<Vec<(PodRef, PodStatus)>>);

impl StatusSink for Local {
    fn publish<'a>(&'a self, pod: &'a PodRef, status: &'a PodStatus) -> BoxFuture<'a, agent::Result<()>> {
        self.0.lock().unwrap().push((pod.clone(), status.clone()));
        Box::pin(std::future::ready(Ok(())))
    }

    fn last(&self, pod: &PodRef) -> Option<PodStatus> {
        let kept = self.0.lock().unwrap();
        kept.iter().rev().find(|(one, _)| one == pod).map(|(_, status)| status.clone())
    }
}
