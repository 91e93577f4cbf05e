//! The agent: all pods that one process runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cri::client::Client;
use ids::allocator::Blocks;
use ids::{IdBlock, IdKind, IdMapping, UserNamespace};
use ledger::{Categories, Holder, LeaseRequest, Ledger};
use lifecycle::{Deletion, Pod, State};
use manifest::k8s_openapi::api::core::v1 as api;
use plan::{Plan, UserNamespaceMode};
use telemetry::log::pod_span;
use telemetry::metrics::Registry;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{Instrument, info, warn};
use types::{PodUid, reason};

use crate::cri::calls::{Cri, DEFAULT_TIMEOUT, Journal};
use crate::cri::dns::PodDefaults;
use crate::cri::marks::Marks;
use crate::cri::notifier::PodNotifier;
use crate::cri::observe::PodObserver;
use crate::error::{Error, Result};
use crate::housekeeping::logs::{LogChecks, LogRotation, LogWorkers, Rotator};
use crate::housekeeping::orphans;
use crate::housekeeping::teardown::{self, Block};
use crate::images::{ImageOptions, ImagePulls};
use crate::instance::InstanceId;
use crate::isolation::IsolationMetrics;
use crate::metrics::Metrics;
use crate::pod::cgroups::PodCgroups;
use crate::pod::change::{self, Change};
use crate::pod::claim::{Claimed, Found, Home, Origin, Sandbox, claim, recorded};
use crate::pod::context::{PodContext, ephemeral};
use crate::pod::executor::ActionExecutor;
use crate::pod::gates;
use crate::pod::handle::Handle;
use crate::pod::lock::PodLock;
use crate::pod::mounts;
use crate::pod::notices;
use crate::pod::orders::{Order, Orders};
use crate::pod::owners::{Owners, SHARED_BLOCK};
use crate::pod::pod_files::{Mark, PodFiles};
use crate::pod::running::{Running, RunningPods};
use crate::pod::spec;
use crate::pod::start_steps::{StartSteps, StepKind};
use crate::pod::starting::{PullTime, Starting};
use crate::pod::stop_requests::StopRequests;
use crate::pod::store::{Place, PodRecord, Stored, stored};
use crate::pod::unrecorded::Unrecorded;
use crate::pod::update::{PodUpdate, Synced};
use crate::pod::view::RunningPod;
use crate::pod::volume_homes::{VolumeDirs, VolumeHomes};
use crate::pod::worker::{Answers, Worker};
use crate::ports::{Clock, EventSink, EventType, ObjectStore, StatusSink};
use crate::shared::{Shared, blocking};
use admission::Admitted;

/// How long the start of pods waits for the removal of orphans.
const ORPHANS_PATIENCE: Duration = Duration::from_secs(10);
/// How often the limits of the cgroups above the pods are set again.
const CGROUPS_PERIOD: Duration = Duration::from_secs(60);
/// Exists where SELinux is on, enforcing or not.
const SELINUX: &str = "/sys/fs/selinux/enforce";

/// What [`Agent::open`] needs: the node's settings and the ports to the runtime, the ledger and the kernel.
pub struct Options {
    /// The state directory, which must exist: records, statuses, volumes and logs of pods.
    pub state: PathBuf,
    /// The connection to the CRI runtime.
    pub client: Client,
    /// The runtime's endpoint. It is recorded with each pod: a later process adopts a pod only on the same
    /// endpoint.
    pub endpoint: String,
    /// The ledger that leases host IDs.
    pub ledger: Arc<Ledger>,
    /// The system calls for mounts and user namespaces of volumes.
    pub kernel: Arc<dyn kernel::Kernel>,
    /// What pods get from objects: ConfigMaps, Secrets, tokens, services.
    pub objects: Arc<dyn ObjectStore>,
    /// Receives the status of each pod.
    pub statuses: Arc<dyn StatusSink>,
    /// Receives the events of pods.
    pub events: Arc<dyn EventSink>,
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Delays of the pod lifecycle: back-off of restarts, retries, minimum grace period.
    pub settings: lifecycle::Settings,
    /// How long a call of the runtime may take; `None`: as long as a kubelet allows by default.
    pub runtime_timeout: Option<Duration>,
    /// When logs of containers are rotated, and how many files are kept.
    pub logs: LogRotation,
    /// How often logs are measured, and how many are rotated at once.
    pub log_checks: LogChecks,
    /// How images are pulled, and which pods may use them.
    pub images: ImageOptions,
    /// The kubelet's root directory, for the agent of a node of a cluster: it has the volumes and files of pods, and
    /// containers have the annotations of a kubelet's, by which pods are adopted also if their records are lost. `None` for
    /// volumes in the state directory and annotations of our own.
    pub root_dir: Option<PathBuf>,
    /// The directory of all pods' logs, with links to them beside it in `containers`; `None` for one in the state
    /// directory, without links.
    pub pod_logs_dir: Option<PathBuf>,
    /// The node's name.
    pub node: String,
    /// The node's address.
    pub host_ip: String,
    /// What pods get that do not say it themselves.
    pub defaults: PodDefaults,
    /// The registry for the agent's metrics. Two agents in one process need two registries.
    pub metrics: Registry,
    /// The cgroups of the pods; `None`: the runtime makes them.
    pub cgroups: Option<Arc<PodCgroups>>,
    /// Called with each request that creates a sandbox or a container, before it is sent.
    pub journal: Option<Journal>,
}

/// A pod's directories, with the pod's lock that this process holds.
struct LockedPlace {
    place: Place,
    lock: PodLock,
}

/// Runs pods. Clones are the same agent.
#[derive(Clone)]
pub struct Agent {
    shared: Arc<Shared>,
}

impl Agent {
    /// Opens the state directory, registers the metrics and subscribes to the runtime's events. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// If the state directory cannot be used, or if another agent has registered its metrics in the same
    /// registry.
    pub fn open(options: Options) -> Result<Self> {
        let state = std::path::absolute(&options.state).map_err(Error::file("find", &options.state))?;
        let metrics = Metrics::register(&options.metrics)?;
        let isolation = IsolationMetrics { state: state.clone(), ledger: Arc::clone(&options.ledger) };
        options.metrics.collector(Arc::new(isolation))?;
        let notifier = Arc::new(PodNotifier::default());
        let (known, _) = stored(&state)?;
        let dirs = VolumeDirs { state: &state, root: options.root_dir.as_deref(), known: &known };
        let volumes = VolumeHomes::open(&dirs, &options.kernel, metrics.volumes.clone())?;
        let shared = Shared {
            volumes,
            root_dir: options.root_dir,
            endpoint: options.endpoint,
            cri: Cri {
                client: options.client.clone(),
                instance: InstanceId::of(&state)?,
                journal: options.journal,
                metrics: metrics.runtime.clone(),
                timeout: options.runtime_timeout.unwrap_or(DEFAULT_TIMEOUT),
            },
            cgroups: options.cgroups,
            state,
            ledger: options.ledger,
            objects: options.objects,
            statuses: options.statuses,
            events: options.events,
            clock: Arc::clone(&options.clock),
            notifier: Arc::clone(&notifier),
            settings: options.settings,
            logs: options.logs,
            log_workers: LogWorkers::new(options.log_checks),
            images: ImagePulls::open(options.images, &options.clock)?,
            pod_logs_dir: options.pod_logs_dir,
            node: options.node,
            host_ip: options.host_ip,
            defaults: options.defaults,
            metrics,
            running: RunningPods::default(),
        };
        if let Some(cgroups) = &shared.cgroups {
            tokio::spawn(refresh_cgroups(Arc::downgrade(cgroups)));
        }
        tokio::spawn(PodNotifier::listen(Arc::downgrade(&notifier), options.client));
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Settles the pulls of images that an earlier process did not record to the end. Call it once, before the first update.
    pub async fn settle_images(&self) {
        self.shared.images.settle(&self.shared.cri).await;
    }

    /// Removes what pods of this state directory have in the runtime, in the state directory, in the root directory and in
    /// the ledger without a record of the pod. What other instances and other clients of the runtime have is left. Call it
    /// once, before the first update; pods of other processes of this state directory are safe. Nothing fails: what cannot
    /// be removed is logged. If it takes long, it is continued in the background.
    pub async fn collect_orphans(&self) {
        let collecting = tokio::spawn(orphans::collect(Arc::clone(&self.shared), BTreeSet::new()));
        if tokio::time::timeout(ORPHANS_PATIENCE, collecting).await.is_err() {
            info!("pods are started while pods without a record are still being removed");
        }
    }

    /// The same for the agent of a node, which adopts pods without a record: those in `wanted`, by UID, are left. Call it
    /// when every source of pods has said which pods it has, and again from time to time. Returns how many pods it removed
    /// that the runtime had something of.
    pub async fn collect_unwanted(&self, wanted: BTreeSet<String>) -> u64 {
        orphans::collect(Arc::clone(&self.shared), wanted).await
    }

    /// Ends what a pod without a record has, for the agent of a node: nothing of it runs when this returns.
    ///
    /// # Errors
    /// If something of it cannot be stopped or removed.
    pub async fn end_unrecorded(&self, uid: &PodUid) -> Result<()> {
        match self.shared.root_dir {
            Some(_) => orphans::collect_one(&self.shared, uid).await,
            None => Ok(()),
        }
    }

    /// Removes the cgroups of pods that are neither in `wanted`, by UID, nor recorded in the state directory. Call it once
    /// every source of pods has said which pods it has. What cannot be removed is logged.
    pub async fn collect_cgroups(&self, wanted: BTreeSet<String>) {
        let shared = Arc::clone(&self.shared);
        let collect = move || {
            let is_recorded = |uid: &str| match PodUid::new(uid) {
                Ok(uid) => Place::new(&shared.state, &uid, "", "").has_record(),
                // Not a pod of this agent.
                Err(_) => true,
            };
            if let Some(cgroups) = &shared.cgroups {
                cgroups.remove_orphans(&wanted, is_recorded);
            }
            Ok(())
        };
        if let Err(error) = blocking("removing cgroups of pods that are gone", collect).await {
            warn!("{error}");
        }
    }

    /// Applies an update to a pod: starts it, changes it while it runs, or stops it. If the process that
    /// managed a pod of the same name has ended, this agent adopts the pod with the new definition.
    ///
    /// # Errors
    /// [`Error::Immutable`] if the pod runs and the update changes an immutable field: the pod is not
    /// changed. Other errors if the pod cannot be started, because another process manages it, or because the
    /// lease of its IDs or the setup of its volumes failed: a new pod is removed again.
    pub async fn sync(&self, update: PodUpdate) -> Result<Synced> {
        match update {
            PodUpdate::Apply(admitted) => match self.running(&admitted.pod) {
                Some(running) => self.update(&running, *admitted).await,
                None => self.start(*admitted).await.map(Synced::Started),
            },
            PodUpdate::Delete { namespace, name, grace } => {
                let Some(running) = self.shared.running.get(&namespace, &name) else {
                    return Ok(Synced::Unknown);
                };
                running.orders.stop(grace).await;
                Ok(Synced::Ending)
            }
        }
    }

    /// The pods that this agent runs, as they are now.
    #[must_use]
    pub fn pods(&self) -> Vec<RunningPod> {
        self.shared.running.all().iter().map(RunningPod::of).collect()
    }

    /// The ledger that it leases host IDs from.
    #[must_use]
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.shared.ledger)
    }

    /// Rewrites the files of all pods' volumes after a change of the ConfigMaps and Secrets that pods
    /// reference.
    pub fn refresh(&self) {
        self.shared.running.all().iter().for_each(|running| running.orders.refresh());
    }

    fn running(&self, pod: &api::Pod) -> Option<Running> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        self.shared.running.get(namespace, pod.metadata.name.as_deref().unwrap_or_default())
    }

    async fn update(&self, running: &Running, admitted: Admitted) -> Result<Synced> {
        let Admitted { mut pod, plan, running: of_running, .. } = admitted;
        let plans = plan.into_iter().chain(of_running).collect();
        let title = running.title();
        admission::runnable(&pod, &self.shared.node, self.shared.objects.pod_origin())?;
        let fields = match change::between(&running.pod, &pod) {
            Change::None => match outside_of_spec(&running.pod, &pod) {
                fields if fields.is_empty() => return Ok(Synced::Unchanged),
                fields => fields,
            },
            Change::Immutable(fields) => return Err(Error::Immutable { pod: title, fields }),
            Change::Update(fields) => fields,
        };
        pod.metadata.uid.clone_from(&running.pod.metadata.uid);
        let (done, answer) = oneshot::channel();
        let order = Order::Update { pod: Box::new(pod.clone()), plans, done };
        if running.orders.sender.send(order).await.is_err() {
            return Ok(Synced::Ended);
        }
        match answer.await {
            Ok(updated) => updated?,
            // The worker ended before it handled the order.
            Err(_) => return Ok(Synced::Ended),
        }
        self.shared.running.updated(running, pod);
        Ok(Synced::Updated(fields))
    }

    /// Starts a pod, or adopts it if the process that managed it has ended.
    async fn start(&self, admitted: Admitted) -> Result<Handle> {
        let steps = StartSteps::since(Instant::now());
        let spec = admitted.pod.spec.clone().unwrap_or_default();
        admission::runnable(&admitted.pod, &self.shared.node, self.shared.objects.pod_origin())?;
        let pod = spec::lowered(&spec, &self.marks(None))?;
        let recording = steps.begin(StepKind::Record);
        let Claimed { place, lock, record, origin, plan } = self.claim(&admitted).await?;
        drop(recording);
        let context = self.context(&record, plan);
        let span = context.span.clone();
        if origin == Origin::Unrecorded {
            info!(parent: &span, "adopted: it runs, and its record is lost");
        }
        if origin == Origin::Left {
            info!(
                parent: &span,
                "adopted: the process that managed the pod has ended; `wardlet logs` prints its output until now"
            );
        }
        if origin == Origin::New {
            self.remove_leftovers(&context.uid, &place).await?;
        }
        match self.prepare(context, record, &place, &steps).await {
            Ok(context) => {
                if let Some(gate) = context.plan.as_ref().and_then(|plan| plan.closed_gate) {
                    let message = format!(
                        "the pod asks for a user namespace and runs without: {gate} is off, or was when the pod was created"
                    );
                    if origin == Origin::New {
                        self.shared.metrics.pods.closed_gate(&gate.to_string());
                    }
                    let events = self.shared.events_of(&context);
                    events.pod(EventType::Warning, reason::USER_NAMESPACE_DISABLED, message);
                }
                let steps = if origin == Origin::New { steps } else { StartSteps::none() };
                Ok(self.supervise(context, LockedPlace { place, lock }, pod, steps))
            }
            Err(error) => {
                if origin == Origin::New
                    && let Err(left) = teardown::all(&self.shared, &place, Block::Settled).await
                {
                    warn!(parent: &span, "cannot remove the pod after its start failed: {left}");
                }
                Err(error)
            }
        }
    }

    /// Claims the pod's name. If a pod of this name was being stopped when its process was killed, that stop is completed
    /// first; one that has ended is removed first. The pod is then a new one.
    async fn claim(&self, admitted: &Admitted) -> Result<Claimed> {
        loop {
            let (shared, wanted) = (Arc::clone(&self.shared), admitted.clone());
            let owners = Owners::of(&shared, &wanted.pod).await?;
            let found = self.find(&wanted.pod).await?;
            let claim = move || {
                let home = Home {
                    state: &shared.state,
                    endpoint: &shared.endpoint,
                    pod_logs_dir: shared.pod_logs_dir.as_deref(),
                    root_dir: shared.root_dir.as_deref(),
                };
                claim(home, &wanted, &owners, found)
            };
            let claimed = blocking("claiming a pod", claim).await?;
            let request = claimed.place.stop_request();
            let what = match (&request, claimed.origin) {
                (_, Origin::Ended) => {
                    "has ended before; its records and logs are removed before it is started anew"
                }
                (Some(_), _) => "was being ended when it was left; ended before it is started anew",
                (None, _) => return Ok(claimed),
            };
            let context = self.context(&claimed.record, None);
            info!(parent: &context.span, "{what}");
            let grace = request.and_then(|request| request.grace).map(Duration::from_secs);
            let pod = spec::lowered(&context.spec, &context.marks)?.deleted(Deletion { grace });
            let Claimed { place, lock, .. } = claimed;
            self.supervise(context, LockedPlace { place, lock }, pod, StartSteps::none()).remove().await?;
        }
    }

    /// What the runtime has of the recorded pod of this name, or of one of this name and UID without a record.
    async fn find(&self, pod: &api::Pod) -> Result<Found> {
        let (shared, named) = (Arc::clone(&self.shared), pod.clone());
        let uid = blocking("reading records", move || recorded(&shared.state, &named)).await?;
        let Some(uid) = uid else {
            let unrecorded = self.find_unrecorded(pod).await?;
            return Ok(Found { sandbox: Sandbox::None, unrecorded });
        };
        Ok(Found { sandbox: self.sandbox_of(&uid).await?, unrecorded: None })
    }

    /// Whether the runtime has a ready sandbox of the pod.
    async fn sandbox_of(&self, uid: &PodUid) -> Result<Sandbox> {
        let sandboxes = self.shared.cri.sandboxes(uid.as_str()).await?;
        let is_ready = |sandbox: &cri::PodSandbox| sandbox.state() == cri::PodSandboxState::SandboxReady;
        Ok(if sandboxes.iter().any(is_ready) { Sandbox::Ready } else { Sandbox::None })
    }

    /// Only the pods of a cluster keep their UIDs without our record of them.
    async fn find_unrecorded(&self, pod: &api::Pod) -> Result<Option<Unrecorded>> {
        let uid = pod.metadata.uid.as_deref().and_then(|uid| PodUid::new(uid).ok());
        let (Some(uid), Some(_)) = (uid, &self.shared.root_dir) else { return Ok(None) };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        Unrecorded::find(&self.shared.cri, &uid, namespace, name).await
    }

    /// By what the containers of a recorded pod are found again.
    fn marks(&self, record: Option<&PodRecord>) -> Marks {
        let is_nodes =
            self.shared.root_dir.is_some() || record.is_some_and(|record| record.root_dir.is_some());
        if is_nodes { Marks::of_kubelet(self.shared.clock.now()) } else { Marks::Own }
    }

    /// Adopts a pod whose process has ended, and stops it within `grace` if that is less than its own grace
    /// period. No container of it is started again.
    ///
    /// # Errors
    /// [`Error::Managed`] if another process manages the pod; else if its lock or its recorded spec cannot be
    /// used.
    pub async fn end(&self, stored: &Stored, grace: Option<Duration>) -> Result<Handle> {
        let record = &stored.record;
        let place = Place::of(&self.shared.state, record);
        let title = format!("{}/{}", record.namespace, record.name);
        let lock = place.take()?.ok_or(Error::Managed { pod: title })?;
        let context = self.context(record, None);
        // Marked as deleted before the worker's first step: without block and plan the worker must not start
        // containers.
        let pod = spec::lowered(&context.spec, &context.marks)?.deleted(Deletion { grace });
        Ok(self.supervise(context, LockedPlace { place, lock }, pod, StartSteps::none()))
    }

    fn context(&self, record: &PodRecord, plan: Option<Plan>) -> PodContext {
        PodContext {
            uid: record.uid.clone(),
            name: record.name.clone(),
            namespace: record.namespace.clone(),
            ephemeral: record.pod.spec.as_ref().map(ephemeral).unwrap_or_default(),
            spec: record.pod.spec.clone().unwrap_or_default(),
            pod: record.pod.clone(),
            plan,
            users: UserNamespace::Host,
            level: None,
            is_selinux_on: Path::new(SELINUX).exists(),
            handler: record.handler.clone(),
            node: self.shared.node.clone(),
            domain: self.shared.defaults.dns.domain.clone(),
            seccomp_default: self.shared.defaults.seccomp_default,
            oom_kill: self.shared.defaults.oom_kill,
            node_fields: Arc::new(self.shared.defaults.node.clone()),
            marks: self.marks(Some(record)),
            instance: self.shared.cri.instance.clone(),
            cgroup: self
                .shared
                .cgroups
                .as_ref()
                .map(|cgroups| cgroups.parent(&record.uid, &record.pod.spec.clone().unwrap_or_default())),
            profiles: self.shared.root_dir.as_ref().unwrap_or(&self.shared.state).join("seccomp"),
            span: pod_span(&record.namespace, &record.name, record.uid.as_str()),
        }
    }

    /// Removes the volumes that a pod without record, sandbox and lease has left: they belong to IDs that the pod has no
    /// more.
    async fn remove_leftovers(&self, uid: &PodUid, place: &Place) -> Result<()> {
        if place.files == place.dir || !place.has_volumes() {
            return Ok(());
        }
        let (ledger, holder) = (Arc::clone(&self.shared.ledger), Holder::new(uid.as_str()));
        let holder = holder.map_err(|e| Error::config("metadata.uid", e.to_string()))?;
        let lease = blocking("reading the ledger", move || Ok(ledger.get(holder)?)).await?;
        if lease.is_none() {
            notices::log(&self.shared.volumes.tear_down(place, uid).await?, &place.span());
        }
        Ok(())
    }

    /// Leases the pod's host IDs, then sets up its volumes. Each is recorded first, so that a later process
    /// can clean up after a crash. A pod that runs keeps its volumes as they are while their content cannot be had: its
    /// probes and its end do not wait for that.
    async fn prepare(
        &self,
        mut context: PodContext,
        mut record: PodRecord,
        place: &Place,
        steps: &StartSteps,
    ) -> Result<PodContext> {
        let (shared, of_pod) = (Arc::clone(&self.shared), place.clone());
        let leasing = steps.begin(StepKind::HostIds);
        let (context, wanted) = blocking("getting a pod ready", move || {
            let _leasing = leasing;
            let place = of_pod;
            lease(&shared, &mut context, &place, &record)?;
            let uids = context.users.lines(IdKind::Uid).unwrap_or_default();
            let gids = context.users.lines(IdKind::Gid).unwrap_or_default();
            // Containers that may still run have the recorded block, so the lease must be of the same one.
            if !record.uids.is_empty() && (&record.uids, &record.gids) != (&uids, &gids) {
                return Err(Error::OtherBlock { pod: context.title() });
            }
            record.mode = mode(&context).to_owned();
            (record.uids, record.gids) = (uids, gids);
            place.write_record(&record)?;
            make_files(&shared, &context, &place)?;
            if let Some(cgroups) = &shared.cgroups {
                cgroups.make(&context.uid, &context.spec)?;
            }
            let wanted = mounts::wanted(&context, &*shared.objects);
            Ok((context, wanted))
        })
        .await?;
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(error) if self.sandbox_of(&context.uid).await? == Sandbox::Ready => {
                let events = self.shared.events_of(&context);
                events.pod(EventType::Warning, reason::FAILED_MOUNT, error.to_string());
                return Ok(context);
            }
            Err(error) => return Err(error),
        };
        notices::announce(&wanted, &context.span);
        if !wanted.volumes.is_empty() {
            let _setting_up = steps.begin(StepKind::Volumes);
            notices::log(&self.shared.volumes.set_up(place, &wanted).await?, &context.span);
        }
        Ok(context)
    }

    /// Spawns the pod's worker. `steps` are those of a new pod's start.
    fn supervise(&self, context: PodContext, locked: LockedPlace, pod: Pod, steps: StartSteps) -> Handle {
        let LockedPlace { place, lock } = locked;
        let seen = steps.seen();
        let settings = self.shared.settings;
        let before = self.shared.statuses.last(&context.reference());
        let state = before
            .as_ref()
            .map_or_else(|| State::new(settings), |status| State::resumed(settings, &status.resumed()));
        let (sender, inbox) = mpsc::channel(16);
        let orders = Orders { sender, changes: Arc::default() };
        let (status, said) = watch::channel(before);
        let (ending, ends) = watch::channel(false);
        let context = Arc::new(context);
        let observed = Arc::new(self.shared.metrics.observed.add());
        let pulling = PullTime::default();
        let starting = seen.map(|seen| Starting::new(seen, &context, pulling.clone()));
        if let Some(seen) = seen {
            self.shared.metrics.pods.worker_begins(seen.elapsed());
        }
        let (updates, updated) = watch::channel(Arc::clone(&context));
        let (writing, running) = watch::channel(Vec::new());
        let (shared, span, logs) = (Arc::clone(&self.shared), context.span.clone(), place.logs.clone());
        tokio::spawn(Rotator { shared, span, logs, running }.run());
        let uid = context.uid.as_str().to_owned();
        let running = Running {
            pod: context.pod.clone(),
            uid: context.uid.clone(),
            orders: orders.clone(),
            context: updated.clone(),
            status: said.clone(),
            steps: steps.clone(),
        };
        self.shared.running.insert(&context.namespace, &context.name, running);
        let worker = Worker {
            pod,
            state,
            observer: PodObserver::new(&uid, &place, context.marks.revisions(context.all_containers())),
            orders: inbox,
            status,
            wakeup: self.shared.notifier.of(&uid),
            requests: StopRequests::of(&place),
            lock,
            answers: Answers::default(),
            starting,
            observed: Arc::clone(&observed),
            ending,
            writing,
            updates,
            changes: Arc::clone(&orders.changes),
            rests_until: tokio::time::Instant::now(),
            executor: ActionExecutor {
                updates: updated,
                shared: Arc::clone(&self.shared),
                context: Arc::clone(&context),
                place: place.clone(),
                ending: ends,
                pulling,
                steps,
            },
        };
        let (shared, uid) = (Arc::clone(&self.shared), context.uid.clone());
        let work = async move {
            let ended = worker.run().await;
            remove_cgroup(shared, uid).await;
            ended
        };
        let task = tokio::spawn(work.instrument(context.span.clone()));
        Handle {
            shared: Arc::clone(&self.shared),
            context,
            place,
            observed,
            orders,
            said,
            is_adopted: seen.is_none(),
            task: Some(task),
            lock: None,
        }
    }
}

/// Sets the limits of the cgroups above the pods again from time to time, as a kubelet does.
async fn refresh_cgroups(cgroups: Weak<PodCgroups>) {
    loop {
        tokio::time::sleep(CGROUPS_PERIOD).await;
        let Some(cgroups) = cgroups.upgrade() else { return };
        let refreshed = blocking("setting limits of cgroups", move || {
            cgroups.refresh();
            Ok(())
        });
        if let Err(error) = refreshed.await {
            warn!("{error}");
        }
    }
}

/// Kills what a pod that has ended left in its cgroup, and removes the cgroup. The removal of the pod tries it again.
async fn remove_cgroup(shared: Arc<Shared>, uid: PodUid) {
    let Some(cgroups) = shared.cgroups.clone() else { return };
    let removed = blocking("removing a pod's cgroup", move || cgroups.remove(uid.as_str()));
    if let Err(error) = removed.await {
        warn!("the cgroup of the pod, which has ended, is not removed: {error}");
    }
}

/// The fields that differ between two definitions of a pod that ask for the same: its worker must know them.
fn outside_of_spec(old: &api::Pod, new: &api::Pod) -> Vec<String> {
    let is_other = [
        ("metadata.generation", old.metadata.generation != new.metadata.generation),
        ("status.conditions", gates::of(old) != gates::of(new)),
    ];
    is_other.into_iter().filter(|(_, is_other)| *is_other).map(|(field, _)| field.to_owned()).collect()
}

fn mode(context: &PodContext) -> &'static str {
    match context.plan.as_ref().map(|plan| plan.user_namespace.mode) {
        Some(UserNamespaceMode::Own) => "own",
        Some(UserNamespaceMode::Shared) => "shared",
        _ => "host",
    }
}

/// The block that a pod has by its record.
fn recorded_blocks(record: &PodRecord) -> Option<Blocks> {
    let block = |lines: &[IdMapping]| match lines {
        [line] => IdBlock::new(line.host().first().into(), line.length()).ok(),
        _ => None,
    };
    Some(Blocks { uids: block(&record.uids)?, gids: block(&record.gids)? })
}

/// Makes the pod's directory in the kubelet's root directory, with the record of its block where only it has that.
fn make_files(shared: &Shared, context: &PodContext, place: &Place) -> Result<()> {
    if place.files == place.dir {
        return Ok(());
    }
    let files = PodFiles(&place.files);
    files.make(&Mark { instance: shared.cri.instance.clone(), logs: place.logs.clone() })?;
    match &context.users {
        UserNamespace::Leased { uids, gids } if uids == gids && mode(context) == "own" => {
            files.record_block(*uids)
        }
        _ => files.forget_block(),
    }
}

/// Leases the pod's block. The lease is on disk before anything is created with its IDs.
fn lease(shared: &Shared, context: &mut PodContext, place: &Place, record: &PodRecord) -> Result<()> {
    let Some(plan) = &context.plan else { return Ok(()) };
    let holder = |name: &str| Holder::new(name).map_err(|e| Error::config("metadata.uid", e.to_string()));
    let request = LeaseRequest {
        length: plan.user_namespace.length,
        places: place.owned_by_pod(),
        categories: if plan.lease_categories { Categories::Pair } else { Categories::None },
        ..LeaseRequest::new(holder(context.uid.as_str())?)
    };
    let lease = match plan.user_namespace.mode {
        UserNamespaceMode::Host => return Ok(()),
        UserNamespaceMode::Own => {
            if let Some(blocks) = recorded_blocks(record)
                && shared.ledger.get(request.holder.clone())?.is_none()
            {
                // The ledger has lost it. What runs has this block, so no other will do.
                shared.ledger.adopt(request.clone(), blocks)?;
            }
            shared.ledger.lease(request)?
        }
        UserNamespaceMode::Shared => shared.ledger.join(holder(SHARED_BLOCK)?, request)?,
    };
    context.users = lease.user_namespace();
    context.level = lease.categories.map(|pair| format!("s0:{pair}"));
    info!(parent: &context.span, "host IDs {}", lease.uids);
    Ok(())
}
