//! This machine as a node of a cluster: the Node, its lease, and the pods that are bound to it, in one.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::node::Node;
use ::node::kubelet::{CredentialProvidersError, KubeletConfig, NodeFlags};
use agent::ports::{Clock, EventSink, StatusSink, SystemClock};
use agent::{Agent, InstanceId, Options, PodCgroups, StatusFiles};
use kubelet_api::{Page, ServedPage, SyncLoop};
use telemetry::metrics::ProcessMetrics;
use tokio::task::JoinSet;
use types::Refusal;

use crate::backoff::random_below;
use crate::cgroups;
use crate::client::Clients;
use crate::defaults::pod_defaults;
use crate::events::{ApiEvents, EventLimits};
use crate::identity::{CertificateMetrics, IdentityError, Serving};
use crate::images;
use crate::kernel_settings::{self, KernelSettingError, OtherValues};
use crate::limits::{self, OomKillError, SwapError};
use crate::node::{
    AddressError, MachineError, MachinePaths, NodeEvents, NodeSettings, RuntimeProbe, addresses, read_machine,
};
use crate::node_admission::NodeAdmission;
use crate::objects::{ApiObjects, Requester};
use crate::page::NodePages;
use crate::pods::PodWatch;
use crate::reconcile::{
    self, Cluster, Metrics, NodeInApi, NodeView, Ports, Sources, WaitingPods, is_apparmor_enabled,
};
use crate::runtime_classes::RuntimeClasses;
use crate::served::NodePods;
use crate::service::{Service, ServiceError};
use crate::static_pods::{Mirrors, StaticPods};
use crate::status::{ApiStatuses, StatusNode, StatusOptions};
use crate::streams::RuntimeStreams;
use crate::usage::{UsagePlaces, UsageReader};
use crate::{lease, node};

/// The version of Kubernetes whose kubelet this agent stands in for.
pub const KUBELET_VERSION: &str = "v1.37.1";

/// What a node agent needs.
pub struct NodeAgent<'a> {
    /// The node's name.
    pub name: String,
    /// The kubelet's configuration.
    pub config: &'a KubeletConfig,
    /// Every field of the kubelet's configuration with its value or default.
    pub effective: &'a serde_json::Value,
    /// Flags of the node itself.
    pub flags: &'a NodeFlags,
    /// The clients of the API server; `None` for a node that only has static pods.
    pub clients: Option<Clients>,
    /// What the agent that runs the pods needs; its objects, statuses, events, node and address are set here.
    pub options: Options,
    /// The node's configuration and host root, and the policy of isolation.
    pub node: Node,
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
    /// The metrics cannot be registered.
    #[error(transparent)]
    Metrics(#[from] telemetry::metrics::Error),
    /// The runtime does not say how it makes cgroups.
    #[error(transparent)]
    Runtime(#[from] cri::CallError),
    /// This node has lost its identity at the API server.
    #[error(transparent)]
    Identity(Arc<IdentityError>),
    /// The kubelet's API cannot be served.
    #[error(transparent)]
    Api(#[from] kubelet_api::ServeError),
    /// The machine has swap.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// It has cgroup v1, and the configuration wants what only cgroup v2 has.
    #[error(transparent)]
    OomKill(#[from] OomKillError),
    /// The kernel's settings are not those of a node.
    #[error(transparent)]
    KernelSettings(#[from] KernelSettingError),
    /// The credential providers cannot be used.
    #[error(transparent)]
    CredentialProviders(#[from] CredentialProvidersError),
    /// The service manager wants what cannot be done.
    #[error(transparent)]
    Service(#[from] ServiceError),
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
            Self::Metrics(_) => None,
            Self::Runtime(error) => error.hint().map(str::to_owned),
            Self::Identity(error) => Some(error.hint()),
            Self::Api(error) => error.hint(),
            Self::Swap(error) => Some(error.hint().to_owned()),
            Self::OomKill(error) => Some(error.hint().to_owned()),
            Self::KernelSettings(error) => Some(error.hint()),
            Self::CredentialProviders(error) => Some(error.hint().to_owned()),
            Self::Service(error) => Some(error.hint().to_owned()),
        }
    }
}

impl NodeAgent<'_> {
    /// Registers the node and runs its pods until `shutdown` is done; the pods keep running then. The API server need not be
    /// reachable at the start: static pods run without it.
    ///
    /// # Errors
    /// If this machine cannot be a node with these settings, or loses its identity at the API server.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), NodeAgentError> {
        let clients = self.clients.clone();
        let lost = OnceLock::new();
        let until = async {
            let Some(clients) = clients else { return shutdown.await };
            tokio::select! {
                () = shutdown => {}
                error = clients.lost() => drop(lost.set(error)),
            }
        };
        self.serve(until).await?;
        lost.into_inner().map_or(Ok(()), |error| Err(NodeAgentError::Identity(error)))
    }

    async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), NodeAgentError> {
        let Self { name, config, effective, flags, clients, mut options, node: this } = self;
        let host_root = this.host_root().path("/");
        let service = Service::from_environment()?;
        limits::check_swap(config, &host_root)?;
        limits::check_oom_kill(config, &host_root)?;
        let others = if config.protect_kernel_defaults { OtherValues::Refuse } else { OtherValues::Set };
        kernel_settings::apply(&host_root, others)?;
        limits::apply(config, &mut options);
        options.images = images::options(config, flags)?;
        let sync_loop = SyncLoop::default();
        let state = options.state.clone();
        let machine = read_machine(MachinePaths { host_root: &host_root, storage: &state })?;
        let settings = NodeSettings::of(config, flags, &name, KUBELET_VERSION);
        if let Some(refusal) = settings.validate(&machine).into_iter().next() {
            return Err(NodeAgentError::Settings(refusal));
        }
        let driver = cgroups::driver(&options.client, config.cgroup_driver).await?;
        let of_pods = cgroups::options(config, &settings, &machine, driver, &host_root);
        let of_pods = Arc::new(PodCgroups::open(of_pods, &state, &options.metrics)?);
        options.cgroups = Some(Arc::clone(&of_pods));
        cgroups::set_oom_score(config.oom_score_adj);
        let addresses = addresses(&name, &settings.node_ips)?;
        let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        options.defaults = pod_defaults(config, &addresses, &node::allocatable(&settings, &machine));
        let probe = RuntimeProbe::start(options.client.clone(), machine.clone(), addresses);
        options.node.clone_from(&name);
        options.host_ip = shown.first().cloned().unwrap_or_default();
        let rescan = config.file_check_frequency.to_std();
        let files = config.static_pod_path.as_deref().map(|dir| StaticPods::start(dir, &name, rescan));
        let mut sources = Sources { api: None, files };
        tokio::pin!(shutdown);
        let mut registered = None;
        let mut health = None;
        // Aborted when this function returns.
        let mut tasks = JoinSet::new();
        let mut cluster = None;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = Metrics::register(&options.metrics)?;
        options.metrics.collector(Arc::new(ProcessMetrics))?;
        let mut allowed = this.config.settings.policy.allowed_unsafe_sysctls.clone();
        allowed.extend(config.allowed_unsafe_sysctls.iter().cloned());
        let mut view = NodeView {
            settings: settings.clone(),
            state: probe.state(),
            cluster: None,
            allowed_unsafe_sysctls: allowed,
            apparmor: is_apparmor_enabled(&host_root),
        };
        let event_limits = EventLimits { per_second: config.event_record_qps, burst: config.event_burst };
        let allowed = config.allowed_unsafe_sysctls.clone();
        let waiting = WaitingPods::default();
        let page = Arc::new(NodePages::new(name.clone(), this.clone(), waiting.clone()));
        let served = served_page(&this, &page);
        let admission = NodeAdmission::new(this, name.clone(), options.client.clone(), allowed);
        if let Some(clients) = clients {
            clients.register(&options.metrics)?;
            let client = clients.main.kube();
            let watch = PodWatch::start(client.clone(), &name);
            let places = UsagePlaces {
                node: name.clone(),
                state: state.clone(),
                root_dir: flags.root_dir.clone(),
                host_root: host_root.clone(),
                cgroups: of_pods,
                machine: machine.clone(),
            };
            let api = kubelet_api::Options {
                config,
                effective,
                usage: Arc::new(UsageReader::new(places, options.client.clone())),
                cert_dir: &flags.cert_dir,
                node: &name,
                client: client.clone(),
                pods: Arc::new(NodePods { pods: watch.view(), state: state.clone() }),
                streams: Arc::new(RuntimeStreams::new(options.client.clone(), InstanceId::of(&state)?)),
                metrics: options.metrics.clone(),
                sync_loop: sync_loop.clone(),
                page: served,
            };
            // Before the node is registered: the Node names the port.
            let api = kubelet_api::serve(api).await?;
            let node = node::spawn(&clients, settings, config.into(), probe.state());
            let events = Arc::new(ApiEvents::start(clients.events.kube(), &name, event_limits));
            let of_node =
                NodeEvents::start(Arc::clone(&events), Arc::clone(&clock), &name, probe.state(), &node);
            let passing = node::pod_cidrs::pass_on(options.client.clone(), node.node(), probe.refresher());
            tasks.spawn(passing);
            let lease = lease::spawn(&clients, &name, config.into(), node.node());
            let serving = Serving::start(config, &flags.cert_dir, &clients.main, &name, node.node());
            let certificates = CertificateMetrics {
                client: clients.main.clone(),
                client_errors: clients
                    .session
                    .as_ref()
                    .map(|session| session.renew_errors())
                    .unwrap_or_default(),
                serving: serving.metrics(),
            };
            options.metrics.collector(Arc::new(certificates))?;
            let mut facts = probe.state();
            let runtime = tokio::select! {
                // The sender lives as long as `probe`.
                state = facts.wait_for(|state| state.facts.runtime.is_some()) => {
                    state.ok().and_then(|state| state.facts.runtime.clone()).unwrap_or_default()
                }
                () = &mut shutdown => return Ok(()),
            };
            let local: Arc<dyn StatusSink> = Arc::new(StatusFiles::new(state.clone()));
            let recursive_read_only = runtime
                .handlers
                .iter()
                .any(|handler| handler.name.is_empty() && handler.recursive_read_only_mounts);
            let in_status = StatusNode { addresses: shown, runtime: runtime.name, recursive_read_only };
            let of_statuses = StatusOptions {
                client: client.clone(),
                pods: watch.view(),
                node: in_status,
                local,
                metrics: options.metrics.clone(),
            };
            let statuses = Arc::new(ApiStatuses::start(of_statuses)?);
            let mirrors = Mirrors::start(client.clone(), watch.view(), node.node());
            let sink = Arc::clone(&events) as Arc<dyn EventSink>;
            let requester = Requester { client, node: name.clone(), seen: node.node(), events: sink };
            let objects = ApiObjects::with_certificates(requester, Arc::clone(&clock));
            options.statuses = Arc::clone(&statuses) as _;
            options.events = events;
            options.objects = Arc::new(objects.clone());
            view.cluster = Some(NodeInApi { client: clients.main.kube(), seen: node.node() });
            sources.api = Some(watch);
            let runtime_classes = RuntimeClasses::new(clients.main.clone());
            cluster = Some(Cluster { statuses, objects, mirrors, runtime_classes });
            registered = Some((node, lease, api, serving, of_node));
        } else {
            health = Some(kubelet_api::serve_health(config, &sync_loop, served.as_ref()));
            if let Some(cidr) = config.pod_cidr.clone() {
                let client = options.client.clone();
                tasks.spawn(async move { node::pod_cidrs::update(&client, &cidr).await });
            }
        }
        let events = Arc::clone(&options.events);
        let agent = Agent::open(options)?;
        page.set_agent(agent.clone());
        agent.settle_images().await;
        tasks.spawn(refresh(agent.clone(), config.sync_frequency.to_std()));
        let admission = Arc::new(admission);
        let turns = sync_loop.clone();
        let ports = Ports {
            agent,
            state,
            admission,
            events,
            cluster,
            clock,
            node: view,
            metrics,
            sync_loop: turns,
            waiting,
        };
        tokio::select! {
            () = reconcile::run(ports, sources, shutdown) => {}
            () = service.run(&sync_loop) => {}
        }
        service.stopping();
        drop((registered, health));
        Ok(())
    }
}

/// The page and where it is served, if the configuration has it served.
fn served_page(node: &Node, page: &Arc<NodePages>) -> Option<ServedPage> {
    let address = node.config.settings.agent.page.address;
    let page = Arc::clone(page) as Arc<dyn Page>;
    (address.port() != 0).then_some(ServedPage { page, address })
}

/// Brings the volumes of all pods up to date from time to time, as a kubelet does when it syncs a pod: other changes are
/// followed as they happen.
async fn refresh(agent: Agent, period: Duration) {
    loop {
        tokio::time::sleep(period + random_below(period / 2)).await;
        agent.refresh();
    }
}
