//! This machine as a node of a cluster: the Node, its lease, and the pods that are bound to it, in one.

use std::path::PathBuf;
use std::sync::Arc;

use ::node::kubelet::{KubeletConfig, NodeFlags};
use agent::ports::{Clock, StatusSink, SystemClock};
use agent::{Agent, Options, StatusFiles};
use tokio::task::JoinSet;
use types::Refusal;

use crate::client::Clients;
use crate::defaults::pod_defaults;
use crate::events::ApiEvents;
use crate::node::{
    AddressError, MachineError, MachinePaths, NodeSettings, RuntimeProbe, addresses, read_machine,
};
use crate::objects::ApiObjects;
use crate::pods::PodWatch;
use crate::reconcile::{self, Admission, Cluster, Ports, Sources};
use crate::runtime_classes::RuntimeClasses;
use crate::served::NodePods;
use crate::static_pods::{Mirrors, StaticPods};
use crate::status::{ApiStatuses, StatusNode};
use crate::{lease, node};

/// The version of Kubernetes whose kubelet this agent stands in for.
pub const KUBELET_VERSION: &str = "v1.37.1";

/// What a node agent needs.
pub struct NodeAgent<'a> {
    /// The node's name.
    pub name: String,
    /// The kubelet's configuration.
    pub config: &'a KubeletConfig,
    /// Flags of the node itself.
    pub flags: &'a NodeFlags,
    /// The clients of the API server; `None` for a node that only has static pods.
    pub clients: Option<Clients>,
    /// What the agent that runs the pods needs; its objects, statuses, events, node and address are set here.
    pub options: Options,
    /// Decides on each pod.
    pub admission: Arc<dyn Admission>,
    /// Where the root directory of the host is seen.
    pub host_root: PathBuf,
}

/// Why a machine cannot be a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeAgentError {
    /// The machine cannot be read.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// It has no usable address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The API server would refuse the node.
    #[error("{}: {}", .0.field, .0.cause)]
    Settings(Refusal),
    /// The agent that runs the pods cannot be opened.
    #[error(transparent)]
    Agent(#[from] agent::Error),
    /// The kubelet's API cannot be served.
    #[error(transparent)]
    Api(#[from] kubelet_api::ServeError),
}

impl NodeAgentError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Machine(error) => Some(error.hint().to_owned()),
            Self::Address(error) => Some(error.hint().to_owned()),
            Self::Settings(refusal) => refusal.hint.clone(),
            Self::Agent(error) => error.hint(),
            Self::Api(error) => error.hint(),
        }
    }
}

impl NodeAgent<'_> {
    /// Registers the node and runs its pods until `shutdown` is done; the pods keep running then. The API server need not be
    /// reachable at the start: static pods run without it.
    ///
    /// # Errors
    /// If this machine cannot be a node with these settings.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), NodeAgentError> {
        let Self { name, config, flags, clients, mut options, admission, host_root } = self;
        let state = options.state.clone();
        let machine = read_machine(MachinePaths { host_root: &host_root, storage: &state })?;
        let settings = NodeSettings::of(config, flags, &name, KUBELET_VERSION);
        if let Some(refusal) = settings.validate(&machine).into_iter().next() {
            return Err(NodeAgentError::Settings(refusal));
        }
        let addresses = addresses(&name, &settings.node_ips)?;
        let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        options.defaults = pod_defaults(config, &addresses);
        let probe = RuntimeProbe::start(options.client.clone(), machine, addresses);
        options.node.clone_from(&name);
        options.host_ip = shown.first().cloned().unwrap_or_default();
        let rescan = config.file_check_frequency.to_std();
        let files = config.static_pod_path.as_deref().map(|dir| StaticPods::start(dir, &name, rescan));
        let mut sources = Sources { api: None, files };
        tokio::pin!(shutdown);
        let mut registered = None;
        // Aborted when this function returns.
        let mut tasks = JoinSet::new();
        let mut cluster = None;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        if let Some(clients) = clients {
            let client = clients.main.kube();
            let watch = PodWatch::start(client.clone(), &name);
            let api = kubelet_api::Options {
                config,
                cert_dir: &flags.cert_dir,
                node: &name,
                client: client.clone(),
                pods: Arc::new(NodePods { pods: watch.view(), state: state.clone() }),
                metrics: options.metrics.clone(),
            };
            // Before the node is registered: the Node names the port.
            let api = kubelet_api::serve(api).await?;
            let node = node::spawn(&clients, settings, config.into(), probe.state());
            let passing = node::pod_cidrs::pass_on(options.client.clone(), node.node(), probe.refresher());
            tasks.spawn(passing);
            let lease = lease::spawn(&clients, &name, config.into(), node.node());
            let mut facts = probe.state();
            let runtime = tokio::select! {
                // The sender lives as long as `probe`.
                state = facts.wait_for(|state| state.facts.runtime.is_some()) => {
                    state.ok().and_then(|state| state.facts.runtime.clone()).unwrap_or_default()
                }
                () = &mut shutdown => return Ok(()),
            };
            let local: Arc<dyn StatusSink> = Arc::new(StatusFiles::new(state.clone()));
            let of_node = StatusNode { addresses: shown, runtime: runtime.name };
            let statuses = Arc::new(ApiStatuses::start(client.clone(), watch.view(), of_node, local));
            let mirrors = Mirrors::start(client.clone(), watch.view(), node.node());
            let objects = ApiObjects::new(client.clone(), Arc::clone(&clock));
            options.statuses = Arc::clone(&statuses) as _;
            options.events = Arc::new(ApiEvents::start(client, &name));
            options.objects = Arc::new(objects.clone());
            sources.api = Some(watch);
            let runtime_classes = RuntimeClasses::new(clients.main.clone());
            cluster = Some(Cluster { statuses, objects, mirrors, runtime_classes });
            registered = Some((node, lease, api));
        } else if let Some(cidr) = config.pod_cidr.clone() {
            let client = options.client.clone();
            tasks.spawn(async move { node::pod_cidrs::update(&client, &cidr).await });
        }
        let events = Arc::clone(&options.events);
        let agent = Agent::open(options)?;
        agent.collect_orphans().await;
        let ports = Ports { agent, state, admission, events, cluster, clock, node: probe.state() };
        reconcile::run(ports, sources, shutdown).await;
        drop(registered);
        Ok(())
    }
}
