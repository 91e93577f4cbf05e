//! Reconciles the pods that the API server has bound to this node, and those of its own files, with those that the agent
//! runs.
//!
//! Nothing is stopped because it is missing from a set before each source has delivered a complete one.
//! Each pod passes through stages ([`Stage`]); slow steps are tasks, so that no pod waits for another. A pod that cannot
//! be started stays Pending and is tried again: a refusal for good would make a controller create pods without end.

mod admitted;
mod judge;
mod metrics;
mod node_view;
mod ports;
mod start_error;
mod waiting;
mod work;
mod working;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent::ports::{PodRef, PodSource};
use agent::{Handle, PodOrigin, PodStatus, PodUpdate};
use manifest::Resource;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, info, warn};
use types::reason;

use crate::pods::{ApiPod, PodSet};
use crate::static_pods::MirrorTarget;
use admitted::AdmittedPods;
use work::Done;

pub use metrics::Metrics;
pub use node_view::{NodeInApi, NodeView, is_apparmor_enabled};
pub use ports::{Admission, Cluster, Ports, Sources};
pub use start_error::StartError;
pub use waiting::WaitingPods;

/// The pause before a pod that could not be started is tried again, as the kubelet's; it doubles each time.
const RETRY: Duration = Duration::from_secs(10);
/// The pause of a pod that lacked an object, when objects have changed meanwhile.
const CHANGED_RETRY: Duration = Duration::from_secs(1);
/// The pause of a pod that waits for the node's network, which is ready at once when it is.
const NETWORK_RETRY: Duration = Duration::from_secs(2);
/// The longest pause.
const LONGEST_RETRY: Duration = Duration::from_secs(120);

/// How often the loop turns if nothing happens.
const TURN: Duration = Duration::from_secs(10);

/// How often what no source has is looked for.
const COLLECTION: Duration = Duration::from_secs(60);

/// Where a pod is on its way through this node.
enum Stage {
    /// A task admits and starts it, or adopts it from an earlier process.
    Starting,
    /// It is admitted, and is started when these pods, by UID, have ended.
    Preempting { victims: BTreeSet<String> },
    /// It could not be started, and is tried again.
    Waiting {
        until: Instant,
        /// Whether it lacks an object: it is tried at once when one appears or changes.
        for_objects: bool,
    },
    /// Its worker runs it.
    Running {
        /// The definition that it runs with; `None` if it is only stopped.
        applied: Option<Arc<ApiPod>>,
        /// Whether a task applies a changed definition. The next one waits for it: they must not overtake each other.
        is_updating: bool,
        /// The shortest grace period of the deletions that were ordered; `None` if none was.
        deletion: Option<Grace>,
    },
    /// No container of it runs, and none will. A task removes its containers and volumes and releases its host IDs.
    Releasing,
    /// The same, and it has no host IDs. Its logs stay until it is deleted.
    Ended(Box<Handle>),
    /// A task removes the rest of it.
    Removing,
    /// Nothing of it is left on this node.
    Finished,
    /// This node rejects it for good. Nothing of it is on this node.
    Rejected,
}

/// The grace period of a deletion; `None` for the pod's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grace(Option<Duration>);

struct Managed {
    pod: PodRef,
    stage: Stage,
    is_static: bool,
    /// How often it could not be started.
    failures: u32,
    /// How many changes of objects there had been when its last start was ordered.
    changes: u64,
}

/// The newest set of each source; `None` until its first complete one.
#[derive(Default)]
struct Wanted {
    api: Option<Arc<PodSet>>,
    files: Option<Arc<PodSet>>,
}

impl Wanted {
    fn is_complete(&self) -> bool {
        self.api.is_some() && self.files.is_some()
    }

    /// The pods that this node is to run. Mirror pods only show static pods.
    fn pods(&self) -> impl Iterator<Item = &Arc<ApiPod>> {
        let own = self.api.iter().flat_map(|set| &set.pods).filter(|pod| pod.mirror.is_none());
        self.files.iter().flat_map(|set| &set.pods).chain(own)
    }

    fn by_uid(&self, uid: &str) -> Option<&Arc<ApiPod>> {
        self.pods().find(|pod| pod.pod.uid.as_str() == uid)
    }
}

/// Runs the pods of the sources until `shutdown` is done. The pods keep running then.
pub async fn run(ports: Ports, sources: Sources, shutdown: impl Future<Output = ()>) {
    let Sources { mut api, mut files } = sources;
    let mut changes = ports.cluster.as_ref().map(|cluster| cluster.objects.subscribe());
    let none = || Some(Arc::new(PodSet::default()));
    // A source that there is not has delivered its only set.
    let wanted = Wanted {
        api: if api.is_none() { none() } else { None },
        files: if files.is_none() { none() } else { None },
    };
    let state = ports.state.clone();
    let admitted = tokio::task::spawn_blocking(move || AdmittedPods::load(&state)).await;
    let mut reconciler = Reconciler {
        ports: Arc::new(ports),
        wanted,
        is_cleaned: false,
        collected: Instant::now(),
        pods: HashMap::new(),
        admitted: admitted.unwrap_or_default(),
        preempted: BTreeSet::new(),
        changes: 0,
        tasks: JoinSet::new(),
    };
    tokio::pin!(shutdown);
    let mut turns = tokio::time::interval(TURN);
    loop {
        reconciler.ports.sync_loop.turn();
        let retry = reconciler.next_retry();
        tokio::select! {
            () = &mut shutdown => return,
            _ = turns.tick() => reconciler.collect(),
            set = next(&mut api) => {
                let Some(set) = set else { return };
                reconciler.ports.metrics.pods.of_api(&set);
                reconciler.wanted.api = Some(set);
                reconciler.reconcile().await;
            }
            set = next(&mut files) => {
                let Some(set) = set else { return };
                reconciler.ports.metrics.pods.of_files(&set);
                reconciler.wanted.files = Some(set);
                reconciler.reconcile().await;
            }
            Some(done) = reconciler.tasks.join_next() => {
                match done {
                    Ok(done) => reconciler.note(done),
                    Err(cause) => error!("a task of a pod ended early: {cause}"),
                }
                reconciler.reconcile().await;
            }
            () = changed(&mut changes) => {
                reconciler.ports.agent.refresh();
                reconciler.changes += 1;
                reconciler.retry_for_objects().await;
            }
            () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                reconciler.reconcile().await;
            }
        }
    }
}

/// The next set of a source; never, if there is no such source.
async fn next<S: PodSource>(source: &mut Option<S>) -> Option<S::Set> {
    match source {
        Some(source) => source.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for a change of an object that a pod references.
async fn changed<T>(changes: &mut Option<watch::Receiver<T>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

struct Reconciler {
    ports: Arc<Ports>,
    wanted: Wanted,
    /// Whether the pods of earlier processes that are no longer wanted were found.
    is_cleaned: bool,
    /// When what no source has was looked for last.
    collected: Instant,
    /// By UID.
    pods: HashMap<String, Managed>,
    admitted: AdmittedPods,
    /// The pods that are ended for critical pods, by UID.
    preempted: BTreeSet<String>,
    /// How often an object that pods reference has changed.
    changes: u64,
    tasks: JoinSet<Done>,
}

impl Reconciler {
    fn next_retry(&self) -> Option<Instant> {
        let until = self.pods.values().filter_map(|managed| match managed.stage {
            Stage::Waiting { until, .. } => Some(until),
            _ => None,
        });
        until.min()
    }

    /// Tries the pods again that lack an object.
    async fn retry_for_objects(&mut self) {
        let mut is_one = false;
        for managed in self.pods.values_mut() {
            if let Stage::Waiting { until, for_objects: true } = &mut managed.stage {
                (*until, is_one) = (Instant::now(), true);
            }
        }
        if is_one {
            self.reconcile().await;
        }
    }

    /// Looks from time to time for what no source has.
    fn collect(&mut self) {
        if self.is_cleaned && self.collected.elapsed() >= COLLECTION {
            self.collect_now();
        }
    }

    /// Removes what pods without a record have that no source has: in the runtime, on disk, in the ledger, of cgroups.
    fn collect_now(&mut self) {
        self.collected = Instant::now();
        // A pod that is over needs nothing but what its record protects.
        let wanted = self.wanted.pods().filter(|pod| !pod.is_terminal());
        let wanted: BTreeSet<String> = wanted.map(|pod| pod.pod.uid.as_str().to_owned()).collect();
        let (agent, metrics) = (self.ports.agent.clone(), self.ports.metrics.clone());
        tokio::spawn(async move {
            metrics.orphaned(agent.collect_unwanted(wanted.clone()).await);
            agent.collect_cgroups(wanted).await;
        });
    }

    /// Ends the recorded pods of earlier processes that no source has any more.
    async fn end_unwanted(&mut self) {
        let state = self.ports.state.clone();
        let stored = tokio::task::spawn_blocking(move || agent::stored(&state)).await;
        let (stored, unreadable) = match stored {
            Ok(Ok(found)) => found,
            Ok(Err(cause)) => return warn!("the pods of earlier processes cannot be read: {cause}"),
            Err(cause) => return error!("reading the pods of earlier processes ended early: {cause}"),
        };
        unreadable.iter().for_each(|cause| warn!("a pod of an earlier process is left as it is: {cause}"));
        for stored in stored {
            let record = &stored.record;
            if self.wanted.by_uid(record.uid.as_str()).is_some() {
                continue;
            }
            let pod = PodRef {
                namespace: record.namespace.clone(),
                name: record.name.clone(),
                uid: record.uid.clone(),
            };
            info!("pod {}/{} is wanted on this node no more; it is stopped", pod.namespace, pod.name);
            if !stored.status.as_ref().is_some_and(PodStatus::is_terminated) {
                self.ports.metrics.orphaned(1);
            }
            self.manage(&pod, Stage::Starting, false);
            self.tasks.spawn(work::end(Arc::clone(&self.ports), pod, None));
        }
    }

    /// Takes each pod one step further, as far as it is known what to do.
    async fn reconcile(&mut self) {
        if self.wanted.is_complete() && !self.is_cleaned {
            self.is_cleaned = true;
            self.end_unwanted().await;
            self.collect_now();
        }
        let mut pods: Vec<Arc<ApiPod>> = self.wanted.pods().cloned().collect();
        // The oldest is admitted first; static pods come before all.
        pods.sort_by_key(|pod| (!pod.is_static, pod.created));
        for wanted in &pods {
            match self.pods.contains_key(wanted.pod.uid.as_str()) {
                true => self.step(wanted.pod.uid.as_str(), Some(wanted)).await,
                false => self.begin(wanted),
            }
        }
        for uid in self.preempted.clone() {
            let wanted = self.wanted.by_uid(&uid).cloned();
            self.step(&uid, wanted.as_ref()).await;
        }
        if self.wanted.is_complete() {
            let is_gone = |uid: &&String| self.wanted.by_uid(uid).is_none();
            let gone: BTreeSet<String> = self.pods.keys().filter(is_gone).cloned().collect();
            for uid in gone {
                self.step(&uid, None).await;
            }
        }
        self.mirror();
    }

    /// Starts a pod that is new here, once no other pod of its name is left.
    fn begin(&mut self, wanted: &Arc<ApiPod>) {
        let is_in_use = |other: &Managed| {
            (&other.pod.namespace, &other.pod.name) == (&wanted.pod.namespace, &wanted.pod.name)
                && !matches!(other.stage, Stage::Finished | Stage::Rejected)
        };
        if self.pods.values().any(is_in_use) {
            return;
        }
        self.manage(&wanted.pod, Stage::Starting, wanted.is_static);
        // A pod that has ended here does not run again, also if the API does not know of its end yet.
        let has_ended = !wanted.is_static && self.admitted.has_ended(wanted.pod.uid.as_str());
        if wanted.deletion.is_none() && !wanted.is_terminal() && !has_ended {
            return self.admit(wanted, None);
        }
        let grace = wanted.deletion.and_then(|deletion| deletion.grace);
        self.tasks.spawn(work::end(Arc::clone(&self.ports), wanted.pod.clone(), grace));
    }

    /// Sets which mirror pods there should be.
    fn mirror(&self) {
        let (Some(cluster), Some(files)) = (&self.ports.cluster, &self.wanted.files) else { return };
        let is_stopping = |one: &&Managed| one.is_static && !matches!(one.stage, Stage::Finished);
        let stopping = self.pods.values().filter(is_stopping);
        let stopping = stopping.map(|one| (one.pod.namespace.clone(), one.pod.name.clone())).collect();
        cluster.mirrors.set(MirrorTarget { pods: files.pods.clone(), stopping });
    }

    /// Takes a known pod a step further; `wanted` is `None` if it is bound to this node no more.
    async fn step(&mut self, uid: &str, wanted: Option<&Arc<ApiPod>>) {
        self.advance(uid, wanted).await;
        self.count(uid);
    }

    /// Tells the metrics where a pod is, and the page whether it waits.
    fn count(&self, uid: &str) {
        let managed = self.pods.get(uid);
        let waits = |managed: &Managed| matches!(managed.stage, Stage::Waiting { .. } | Stage::Starting);
        if !managed.is_some_and(waits) {
            self.ports.waiting.remove(uid);
        }
        let is_static = managed.is_some_and(|managed| managed.is_static);
        let origin = if is_static { PodOrigin::Static } else { PodOrigin::ApiServer };
        self.ports.metrics.pods.set(uid, managed.and_then(|managed| managed.stage.lifecycle()), origin);
    }

    async fn advance(&mut self, uid: &str, wanted: Option<&Arc<ApiPod>>) {
        let deletion = match wanted {
            None => Some(Grace(self.wanted.api.as_ref().and_then(|set| set.last_grace(uid)))),
            Some(wanted) => wanted.deletion.map(|deletion| Grace(deletion.grace)),
        };
        // A pod that is ended for a critical one stays in the API, with its logs here.
        let stop = deletion.or(self.preempted.contains(uid).then_some(Grace(None)));
        let Some(managed) = self.pods.get(uid) else { return };
        let has_room = match &managed.stage {
            Stage::Preempting { victims } => self.have_ended(victims),
            _ => false,
        };
        let Some(managed) = self.pods.get_mut(uid) else { return };
        match (&mut managed.stage, wanted) {
            (Stage::Starting | Stage::Releasing | Stage::Removing, _) => {}
            (Stage::Waiting { .. } | Stage::Preempting { .. }, _) if stop.is_some() => {
                managed.stage = Stage::Starting;
                self.tasks.spawn(work::end(Arc::clone(&self.ports), managed.pod.clone(), None));
            }
            (Stage::Waiting { until, .. }, Some(wanted)) if *until <= Instant::now() => {
                (managed.stage, managed.changes) = (Stage::Starting, self.changes);
                self.tasks.spawn(work::start(Arc::clone(&self.ports), Arc::clone(wanted)));
            }
            (Stage::Preempting { .. }, Some(wanted)) if has_room => {
                (managed.stage, managed.changes) = (Stage::Starting, self.changes);
                self.tasks.spawn(work::start(Arc::clone(&self.ports), Arc::clone(wanted)));
            }
            (Stage::Running { applied, is_updating, deletion: ordered }, _) => {
                if let Some(grace) = stop {
                    if *ordered != Some(grace) {
                        *ordered = Some(grace);
                        let PodRef { namespace, name, .. } = managed.pod.clone();
                        let delete = PodUpdate::Delete { namespace, name, grace: grace.0 };
                        // A deletion does not fail.
                        let _ = self.ports.agent.sync(delete).await;
                    }
                } else if let (Some(wanted), Some(before)) = (wanted, applied)
                    && !*is_updating
                    && !before.asks_the_same(wanted)
                {
                    *is_updating = true;
                    *before = Arc::clone(wanted);
                    self.tasks.spawn(work::update(Arc::clone(&self.ports), Arc::clone(wanted)));
                }
            }
            (Stage::Ended(_), _) if deletion.is_some() => {
                if let Stage::Ended(handle) = std::mem::replace(&mut managed.stage, Stage::Removing) {
                    self.tasks.spawn(work::remove(managed.pod.clone(), handle));
                }
            }
            (Stage::Finished | Stage::Rejected, None) => {
                self.pods.remove(uid);
                self.preempted.remove(uid);
            }
            // Its file was away for a while.
            (Stage::Finished, Some(wanted)) if managed.is_static => {
                self.pods.remove(uid);
                self.begin(wanted);
            }
            (Stage::Finished | Stage::Rejected, Some(_)) if deletion.is_some() => {
                self.ports.finish(&managed.pod)
            }
            (Stage::Waiting { .. } | Stage::Preempting { .. } | Stage::Ended(_), _)
            | (Stage::Finished | Stage::Rejected, _) => {}
        }
    }

    /// Notes what a task has done.
    fn note(&mut self, done: Done) {
        match done {
            Done::Started { pod, applied, handle } => {
                if let Some(cluster) = self.ports.cluster.as_ref().filter(|_| handle.is_adopted()) {
                    cluster.statuses.resume(&pod);
                }
                self.admitted.started(pod.uid.as_str());
                self.set_stage(&pod, Stage::Running { applied, is_updating: false, deletion: None });
                self.tasks.spawn(work::ended(pod, handle));
            }
            Done::NodeRead { wanted, node } => {
                let facts = node.map(|node| self.ports.node.facts_of(&node));
                self.admit(&wanted, Some(facts.unwrap_or_else(|| self.ports.node.facts())));
            }
            Done::NotStarted { pod, error } => {
                self.accept(&pod);
                self.say(&pod, &error);
                self.ports.waiting.add(&pod, &error, self.ports.clock.now());
                self.admitted.waits(pod.uid.as_str());
                let is_network = error.reason == reason::NETWORK_NOT_READY;
                let failures = self.pods.get(pod.uid.as_str()).map_or(0, |managed| managed.failures);
                let pause = RETRY.saturating_mul(1 << failures.min(4)).min(LONGEST_RETRY);
                let pause = if is_network { NETWORK_RETRY } else { pause };
                let for_objects = error.reason == reason::FAILED_MOUNT;
                let before = self.pods.get(pod.uid.as_str()).map(|managed| managed.changes);
                // The object may have appeared while the pod was tried without it.
                let pause = if for_objects && before != Some(self.changes) { CHANGED_RETRY } else { pause };
                self.set_stage(&pod, Stage::Waiting { until: Instant::now() + pause, for_objects });
                if let Some(managed) = self.pods.get_mut(pod.uid.as_str()).filter(|_| !is_network) {
                    managed.failures += 1;
                }
            }
            Done::Updated { pod, outcome } => {
                if let Some(Managed { stage: Stage::Running { is_updating, .. }, .. }) =
                    self.pods.get_mut(pod.uid.as_str())
                {
                    *is_updating = false;
                }
                if let Err(error) = outcome {
                    self.say(&pod, &error);
                }
            }
            Done::Ended { pod, handle } => {
                let stage = self.pods.get(pod.uid.as_str()).map(|managed| &managed.stage);
                self.admitted.remove(pod.uid.as_str());
                // A deletion that was ordered is final, also if the file of a static pod is back.
                let is_deleted = matches!(stage, Some(Stage::Running { deletion: Some(_), .. }));
                if is_deleted && !self.preempted.contains(pod.uid.as_str()) {
                    self.set_stage(&pod, Stage::Removing);
                    self.tasks.spawn(work::remove(pod, handle));
                } else {
                    self.set_stage(&pod, Stage::Releasing);
                    self.tasks.spawn(work::release(pod, handle));
                }
            }
            Done::Released { pod, handle } => {
                self.preempted.remove(pod.uid.as_str());
                self.set_stage(&pod, Stage::Ended(handle));
            }
            Done::Removed { pod } => {
                self.admitted.remove(pod.uid.as_str());
                let is_static = self.pods.get(pod.uid.as_str()).is_some_and(|managed| managed.is_static);
                if let Some(cluster) = &self.ports.cluster {
                    cluster.objects.unregister(&pod.uid);
                }
                if !is_static {
                    self.ports.finish(&pod);
                }
                let is_preempted = self.preempted.remove(pod.uid.as_str());
                self.set_stage(&pod, if is_preempted { Stage::Rejected } else { Stage::Finished });
            }
        }
    }

    /// Shows a pod that could not be started yet as Pending in the API.
    fn accept(&self, pod: &PodRef) {
        let Some(cluster) = &self.ports.cluster else { return };
        let wanted = self.wanted.by_uid(pod.uid.as_str()).and_then(|wanted| wanted.object());
        if let Some(Resource::Pod(wanted)) = wanted.map(|object| &object.resource)
            && let Some(status) = agent::pending_status(wanted, self.ports.clock.now())
        {
            cluster.statuses.accept(pod, status);
        }
    }

    fn manage(&mut self, pod: &PodRef, stage: Stage, is_static: bool) {
        let managed = Managed { pod: pod.clone(), stage, is_static, failures: 0, changes: self.changes };
        self.pods.insert(pod.uid.as_str().to_owned(), managed);
        self.count(pod.uid.as_str());
    }

    fn set_stage(&mut self, pod: &PodRef, stage: Stage) {
        if let Some(managed) = self.pods.get_mut(pod.uid.as_str()) {
            managed.stage = stage;
            self.count(pod.uid.as_str());
        }
    }

    /// Says why a pod could not be started or changed, in the log and as an event.
    fn say(&self, pod: &PodRef, error: &StartError) {
        warn!("pod {}/{}: {}", pod.namespace, pod.name, error.message);
        self.ports.metrics.refused(error.reason, &error.cause);
        self.event(pod, error.reason, error.message.clone());
    }
}
