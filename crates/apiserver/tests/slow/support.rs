//! A control plane, users of it, and waiting.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apiserver::client::Clients;
use apiserver::node::{
    MachinePaths, NodeFacts, NodeHandle, NodeImage, NodeSettings, NodeState, NodeTiming, RuntimeFacts,
    RuntimeHandler, read_machine, spawn,
};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::Value;
use testbed::{Parts, Testbed, User, Validity};
use tokio::sync::watch;

/// Much longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The control plane of all tests that do not stop it. It ends with this process.
pub(crate) fn cluster() -> &'static Testbed {
    static CLUSTER: OnceLock<Testbed> = OnceLock::new();
    CLUSTER.get_or_init(|| Testbed::start(Parts::control_plane()).unwrap())
}

/// Runs a test in the network of a testbed.
pub(crate) fn run<F: Future<Output = ()>>(testbed: &Testbed, test: impl FnOnce() -> F + Send) {
    let in_runtime = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
    };
    testbed.in_network(in_runtime).unwrap();
}

pub(crate) fn node_kubeconfig(testbed: &Testbed, name: &str) -> PathBuf {
    let common_name = format!("system:node:{name}");
    let organization = Some("system:nodes");
    let user = User { file: name, common_name: &common_name, organization, validity: Validity::Valid };
    testbed.user_kubeconfig(&user).unwrap()
}

pub(crate) async fn admin(testbed: &Testbed) -> kube::Client {
    Clients::from_kubeconfig(&testbed.kubeconfig()).await.unwrap().main.kube()
}

/// Never computed again by itself: what happens was caused by a change.
pub(crate) const BY_CHANGE: NodeTiming =
    NodeTiming { update: Duration::from_secs(3600), report: Duration::from_secs(3600) };
/// Computed all the time.
pub(crate) const OFTEN: NodeTiming =
    NodeTiming { update: Duration::from_millis(50), report: Duration::from_secs(3600) };

/// A node of this machine on a runtime that does not exist.
pub(crate) fn state() -> NodeState {
    let root = std::path::Path::new("/");
    let handler = |name: &str| RuntimeHandler {
        name: name.to_owned(),
        user_namespaces: true,
        ..RuntimeHandler::default()
    };
    let facts = NodeFacts {
        machine: read_machine(MachinePaths { host_root: root, storage: root }).unwrap(),
        runtime: Some(RuntimeFacts {
            name: "wardlet".to_owned(),
            version: "0.1.0".to_owned(),
            handlers: vec![handler("runc"), handler("")],
            supplemental_groups_policy: true,
        }),
        images: vec![image("example.test/a:1", 10), image("example.test/b:1", 20)],
        addresses: ["10.240.0.10", "fd00::10"].map(|ip| ip.parse().unwrap()).to_vec(),
        volumes_in_use: Some(Vec::new()),
        ..NodeFacts::default()
    };
    NodeState { facts, ..NodeState::default() }
}

pub(crate) fn ready() -> NodeState {
    let mut state = state();
    state.conditions.not_ready.clear();
    state
}

pub(crate) fn image(tag: &str, size: u64) -> NodeImage {
    NodeImage { repo_tags: vec![tag.to_owned()], size, ..NodeImage::default() }
}

pub(crate) fn settings(name: &str) -> NodeSettings {
    NodeSettings::new(name, "v1.37.1")
}

/// An agent of a node, with the user of that node.
pub(crate) struct Agent {
    pub(crate) clients: Clients,
    pub(crate) state: watch::Sender<NodeState>,
    pub(crate) handle: NodeHandle,
}

impl Agent {
    pub(crate) async fn start(
        testbed: &Testbed,
        settings: NodeSettings,
        timing: NodeTiming,
        state: NodeState,
    ) -> Self {
        let clients = Clients::from_kubeconfig(&node_kubeconfig(testbed, &settings.name)).await.unwrap();
        let state = watch::Sender::new(state);
        let handle = spawn(&clients, settings, timing, state.subscribe());
        Self { clients, state, handle }
    }

    /// Waits until the Node, as the agent sees it, fulfils the condition.
    pub(crate) async fn node_with(&self, what: &str, holds: impl Fn(&Node) -> bool) -> Arc<Node> {
        let mut seen = self.handle.node();
        let holds = |node: &Option<Arc<Node>>| node.as_ref().is_some_and(|node| holds(node));
        let found = until(&mut seen, what, holds).await;
        found.unwrap()
    }
}

/// Waits until the value of a channel fulfils a condition.
pub(crate) async fn until<T: Clone + std::fmt::Debug>(
    channel: &mut watch::Receiver<T>,
    what: &str,
    holds: impl FnMut(&T) -> bool,
) -> T {
    let found =
        tokio::time::timeout(PATIENCE, channel.wait_for(holds)).await.map(|found| found.unwrap().clone());
    found.unwrap_or_else(|_| panic!("{what}: {:?}", *channel.borrow()))
}

/// Asks until the answer is there.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{what}: never"))
}

pub(crate) fn condition<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == name).map(|c| c.status.as_str())
}

pub(crate) fn is_ready(node: &Node) -> bool {
    condition(node, "Ready") == Some("True")
}

pub(crate) async fn merge(api: &Api<Node>, name: &str, patch: Value) -> Node {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}
