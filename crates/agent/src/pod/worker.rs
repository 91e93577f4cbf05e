//! The worker of one pod: a loop that observes, decides and acts until the pod has terminated.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lifecycle::{
    Action, ContainerName, Deletion, InstanceState, Moment, Observed, Outcome, Pod, Stage, State, Status,
    Task, Verdict, step,
};
use manifest::k8s_openapi::api::core::v1 as api;
use plan::Plan;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tracing::{Instrument, info, warn};
use types::reason;

use crate::cri::observe::{PodObserver, PodSnapshot};
use crate::error::{Error, Result};
use crate::housekeeping::logs::Running;
use crate::metrics::observed::ObservedPod;
use crate::metrics::pods::Pass;
use crate::pod::claim::definition;
use crate::pod::context::PodContext;
use crate::pod::executor::ActionExecutor;
use crate::pod::gates;
use crate::pod::lock::PodLock;
use crate::pod::mounts;
use crate::pod::orders::Order;
use crate::pod::spec;
use crate::pod::starting::{Measured, Starting};
use crate::pod::stop_requests::StopRequests;
use crate::pod::store::StopRequest;
use crate::ports::EventType;
use crate::shared::blocking;
use crate::status::view::PodStatus;

/// Period of a relist without an event of the runtime, in case an event was lost.
const RELIST: Duration = Duration::from_secs(10);
/// Period of a relist with a runtime that has no event stream.
const RELIST_UNTOLD: Duration = Duration::from_secs(1);
/// Pause after a failed relist.
const UNANSWERED: Duration = Duration::from_secs(1);

pub(crate) struct Worker {
    pub(crate) executor: ActionExecutor,
    pub(crate) pod: Pod,
    pub(crate) state: State,
    pub(crate) observer: PodObserver,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) status: watch::Sender<Option<PodStatus>>,
    pub(crate) wakeup: Arc<Notify>,
    pub(crate) requests: StopRequests,
    /// Held for as long as the worker runs: no other process manages the pod.
    pub(crate) lock: PodLock,
    /// Whether the last relist succeeded.
    pub(crate) answers: Answers,
    /// The start of a new pod, until it is measured.
    pub(crate) starting: Option<Starting>,
    /// What the runtime has of the pod, for the metrics.
    pub(crate) observed: Arc<ObservedPod>,
    /// Notifies running tasks that the pod is being stopped.
    pub(crate) ending: watch::Sender<bool>,
    /// Notifies running tasks of a new definition.
    pub(crate) updates: watch::Sender<Arc<PodContext>>,
    /// Notified when objects that the pod may reference have changed.
    pub(crate) changes: Arc<Notify>,
    /// When the pod's files may be rewritten for such a change again.
    pub(crate) rests_until: tokio::time::Instant,
    /// Notifies the log rotation of the containers that run.
    pub(crate) writing: watch::Sender<Vec<Running>>,
}

/// Whether the runtime responds. Each change is logged once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Answers {
    #[default]
    Yes,
    No,
}

#[derive(Default)]
struct UnderWay {
    running: JoinSet<Option<Outcome>>,
    tasks: HashMap<Id, (Task, AbortHandle)>,
}

impl UnderWay {
    fn tasks(&self) -> BTreeSet<Task> {
        self.tasks.values().map(|(task, _)| task.clone()).collect()
    }

    fn spawn(&mut self, task: Task, work: impl Future<Output = Option<Outcome>> + Send + 'static) {
        let handle = self.running.spawn(work);
        self.tasks.insert(handle.id(), (task, handle));
    }

    /// Ends hooks and probes of containers that have ended, and of a pod that is over: they may last as long as the pod's
    /// author likes.
    fn abort_pointless(&self, stage: Stage, snapshot: &PodSnapshot) {
        for (task, handle) in self.tasks.values() {
            if let Task::Hook(name, attempt, _) | Task::Probe(name, attempt, _) = task
                && (stage == Stage::Terminated || has_ended(snapshot, name, *attempt))
            {
                handle.abort();
            }
        }
    }

    /// Waits for the next task that ends; without a task, for ever.
    async fn next(&mut self) -> Option<Outcome> {
        match self.running.join_next_with_id().await {
            Some(Ok((id, outcome))) => {
                self.tasks.remove(&id);
                outcome
            }
            // The task panicked: it is no longer under way, so `lifecycle` orders its action again. Or it was aborted: a hook
            // has failed then, for it is not run twice, and a probe has no verdict.
            Some(Err(broken)) => match self.tasks.remove(&broken.id()) {
                Some((Task::Hook(container, attempt, hook), _)) if broken.is_cancelled() => {
                    Some(Outcome::HookRan { container, attempt, hook, verdict: Verdict::Failure })
                }
                _ => None,
            },
            None => std::future::pending().await,
        }
    }
}

/// Whether a container instance has run, and does no longer. One whose state is unknown may still run.
fn has_ended(snapshot: &PodSnapshot, name: &ContainerName, attempt: u32) -> bool {
    let found = snapshot.container(name, attempt);
    found.is_none_or(|found| matches!(found.seen.state, InstanceState::Exited(_)))
}

/// How long after its begin a rewrite of a pod's files is followed by the next: objects that change all the time must not keep
/// the disk busy for all pods.
fn rest_after(took: Duration) -> Duration {
    took.saturating_mul(5).max(Duration::from_secs(1))
}

impl Worker {
    /// Runs until the pod has terminated: no container runs, and none will be started.
    pub(crate) async fn run(mut self) -> (PodStatus, PodLock) {
        let mut under_way = UnderWay::default();
        let mut outcomes = Vec::new();
        let mut next = if self.starting.is_some() { Pass::Create } else { Pass::Sync };
        self.hear_requests();
        loop {
            let begun = Instant::now();
            if self.requests.is_polled() {
                self.hear_requests();
            }
            let tasks = under_way.tasks();
            let Ok(snapshot) = self.observe().await else {
                let again = self.now().after(UNANSWERED);
                outcomes.extend(self.wait(Some(again), &mut under_way).await);
                continue;
            };
            let snapshot = Arc::new(snapshot);
            self.writing.send_if_modified(|known| {
                let running = snapshot.running();
                let is_other = *known != running;
                *known = running;
                is_other
            });
            let conditions = gates::of(&self.executor.context.pod);
            let observed =
                Observed { conditions, ..observed(&snapshot, tasks, std::mem::take(&mut outcomes)) };
            let now = self.now();
            let (actions, status) = step(&self.pod, &observed, &mut self.state, now);
            let ips = snapshot.current().map(|sandbox| self.executor.addresses(sandbox));
            let ips =
                ips.unwrap_or_else(|| self.status.borrow().iter().flat_map(|s| s.ips.clone()).collect());
            self.ending.send_replace(status.stage != Stage::Syncing);
            under_way.abort_pointless(status.stage, &snapshot);
            let is_over = status.stage == Stage::Terminated && under_way.tasks.is_empty();
            let status = self.view(&status, ips, &snapshot);
            if status.is_up() {
                self.executor.steps.end();
            }
            let metrics = &self.executor.shared.metrics.pods;
            if let Some(starting) = &mut self.starting
                && starting.note(&status, now, metrics) == Measured::All
            {
                self.starting = None;
            }
            if is_over {
                self.publish(&status).await;
                self.observed.rests();
                self.executor.shared.metrics.pods.worker_passed(Pass::Terminated, begun);
                return (status, self.lock);
            }
            let pass = if status.is_ending() { Pass::Kill } else { next };
            next = Pass::Sync;
            // The tasks run while the status is written to disk.
            let wake = self.order(actions, &snapshot, &mut under_way);
            self.publish(&status).await;
            self.executor.shared.metrics.pods.worker_passed(pass, begun);
            outcomes.extend(self.wait(wake, &mut under_way).await);
        }
    }

    fn now(&self) -> Moment {
        self.executor.shared.clock.now()
    }

    async fn observe(&mut self) -> Result<PodSnapshot> {
        let begun = Instant::now();
        let looked = self.observer.observe(&self.executor.shared.cri).await;
        self.observed.relisted(begun, looked.as_ref().ok().map(PodSnapshot::found));
        let answers = if looked.is_ok() { Answers::Yes } else { Answers::No };
        if answers != self.answers {
            let span = &self.executor.context.span;
            match &looked {
                Ok(_) => info!(parent: span, "the runtime responds again"),
                Err(error) => warn!(parent: span, "cannot get the pod's state from the runtime: {error}"),
            }
        }
        self.answers = answers;
        looked
    }

    /// The pod's status with its addresses, the runtime's IDs of its containers and the generation of its spec.
    fn view(&self, status: &Status, ips: Vec<String>, snapshot: &PodSnapshot) -> PodStatus {
        let generation = self.executor.context.pod.metadata.generation;
        let status = PodStatus { generation, ..PodStatus::new(status, ips) };
        status.identified(self.status.borrow().as_ref(), |name| snapshot.instances(name))
    }

    async fn publish(&self, status: &PodStatus) {
        if self.status.borrow().as_ref() == Some(status) {
            return;
        }
        self.record_events(status);
        let pod = self.executor.context.reference();
        if let Err(error) = self.executor.shared.statuses.publish(&pod, status).await {
            warn!(parent: &self.executor.context.span, "{error}");
        }
        self.status.send_replace(Some(status.clone()));
    }

    /// Spawns a task for each action. Returns when `lifecycle` wants the next step.
    fn order(
        &self,
        actions: Vec<Action>,
        snapshot: &Arc<PodSnapshot>,
        under_way: &mut UnderWay,
    ) -> Option<Moment> {
        let mut wake = None;
        for action in actions {
            match (&action, action.task()) {
                (Action::Wake { at }, _) => wake = Some(*at),
                (_, None) => {}
                (_, Some(task)) => {
                    let work = self.executor.clone().execute(action, Arc::clone(snapshot));
                    under_way.spawn(task, work.instrument(self.executor.context.span.clone()));
                }
            }
        }
        wake
    }

    /// Waits for a reason for the next step: an outcome, an event of the runtime, an order, a request or the
    /// deadline. An outcome is taken before the next relist, which then shows the task's effect.
    async fn wait(&mut self, wake: Option<Moment>, under_way: &mut UnderWay) -> Option<Outcome> {
        let relist = if self.executor.shared.notifier.has_events() { RELIST } else { RELIST_UNTOLD };
        let until = wake.map_or(relist, |at| at.since(self.now()).min(relist));
        let (wakeup, changes) = (Arc::clone(&self.wakeup), Arc::clone(&self.changes));
        let deadline = tokio::time::sleep(until);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                outcome = under_way.next() => return outcome,
                () = wakeup.notified() => return None,
                () = &mut deadline => return None,
                order = self.orders.recv(), if !self.orders.is_closed() => match order {
                    Some(Order::Stop(grace)) => {
                        self.note_end(grace).await;
                        self.delete(grace);
                        return None;
                    }
                    Some(Order::Update { pod, plans, done }) => {
                        let begun = Instant::now();
                        // The caller may not wait for the result.
                        let _ = done.send(self.update(*pod, plans).await);
                        self.executor.shared.metrics.pods.worker_passed(Pass::Update, begun);
                        return None;
                    }
                    None => {}
                },
                // Cancelled while it rests, it has taken no notice of a change yet.
                () = async { tokio::time::sleep_until(self.rests_until).await; changes.notified().await } => {
                    let begun = tokio::time::Instant::now();
                    self.refresh().await;
                    self.rests_until = begun + rest_after(begun.elapsed());
                }
                () = self.requests.changed() => if self.hear_requests() {
                    return None;
                },
            }
        }
    }

    /// Applies a new definition of the pod. The record is written first, so that a later process has the new
    /// definition too; then the files of the pod's volumes. The next step replaces containers of an old
    /// revision.
    async fn update(&mut self, pod: api::Pod, plans: Vec<Plan>) -> Result<()> {
        let before = &self.executor.context;
        let users = before.plan.as_ref().map(|plan| plan.user_namespace);
        let plan = plans.into_iter().find(|plan| Some(plan.user_namespace) == users);
        let context = Arc::new(before.updated(pod, plan));
        let updated = self.pod.clone().updated(spec::lifecycle_spec(&context.spec, &context.marks)?)?;
        let (place, recorded) = (self.executor.place.clone(), context.pod.clone());
        let hash = context.plan.as_ref().map_or(0, |plan| definition(&context.pod, plan.user_namespace));
        blocking("recording an update", move || place.update_record(recorded, hash)).await?;
        self.state.update(&self.pod, &updated);
        self.pod = updated;
        self.executor.context = Arc::clone(&context);
        self.updates.send_replace(context);
        self.refresh().await;
        Ok(())
    }

    /// Records the stop request before the pod is stopped: a later process must complete the stop, not resume
    /// the pod.
    async fn note_end(&self, grace: Option<Duration>) {
        let place = self.executor.place.clone();
        let request = StopRequest { grace: grace.map(|grace| grace.as_secs()) };
        let done = blocking("writing a request", move || place.write_stop(&request)).await;
        if let Err(error) = done {
            warn!(parent: &self.executor.context.span, "{error}");
        }
    }

    fn delete(&mut self, grace: Option<Duration>) {
        self.pod = self.pod.clone().deleted(Deletion { grace });
    }

    /// Applies a stop request of another process. Returns whether there is one.
    fn hear_requests(&mut self) -> bool {
        let Some(request) = self.requests.get() else { return false };
        self.delete(request.grace.map(Duration::from_secs));
        true
    }

    /// Rewrites the files of the pod's volumes from the current objects.
    async fn refresh(&self) {
        let ActionExecutor { shared, context, place, .. } = self.executor.clone();
        let span = context.span.clone();
        let done = async {
            let objects = Arc::clone(&shared.objects);
            let read = move || Ok(mounts::available(&context, &*objects));
            let (wanted, errors) = blocking("reading a pod's objects", read).await?;
            let events = self.executor.shared.events_of(&self.executor.context);
            for error in errors {
                events.pod(EventType::Warning, reason::FAILED_MOUNT, error.to_string());
            }
            // A pod without volumes has no record in `volumes` to update.
            if wanted.volumes.is_empty() {
                return Ok(Vec::new());
            }
            Ok::<_, Error>(shared.volumes.of(&place)?.manager.update(&wanted).await?)
        };
        match done.await {
            Ok(written) => {
                let changed = written.into_iter().filter(|(_, w)| *w != volumes::writer::Written::Nothing);
                changed.for_each(|(volume, _)| info!(parent: &span, %volume, "volume {volume} updated"));
            }
            Err(error) => {
                let events = self.executor.shared.events_of(&self.executor.context);
                events.pod(EventType::Warning, reason::FAILED_MOUNT, error.to_string());
            }
        }
    }
}

fn observed(snapshot: &PodSnapshot, under_way: BTreeSet<Task>, outcomes: Vec<Outcome>) -> Observed {
    Observed {
        under_way,
        sandboxes: snapshot.sandboxes.iter().map(|s| s.seen).collect(),
        instances: snapshot.containers.iter().map(|c| c.seen.clone()).collect(),
        outcomes,
        conditions: std::collections::BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use lifecycle::{Exit, HookKind, Instance, ProbeKind};

    use super::*;
    use crate::cri::observe::ObservedContainer;

    fn name(text: &str) -> ContainerName {
        ContainerName::new(text).unwrap()
    }

    fn container(text: &str, state: InstanceState) -> ObservedContainer {
        let seen = Instance { container: name(text), attempt: 0, sandbox: 0, revision: 0, state };
        ObservedContainer {
            id: text.to_owned(),
            image: String::new(),
            image_ref: String::new(),
            user: None,
            seen,
        }
    }

    fn ended() -> InstanceState {
        let at = Moment::from_millis(1);
        let message = String::new();
        InstanceState::Exited(Exit { code: 137, reason: None, message, started: None, finished: at })
    }

    /// Hooks, a probe and a stop, none of which ends by itself.
    fn endless() -> UnderWay {
        let mut under_way = UnderWay::default();
        for task in [
            Task::Hook(name("a"), 0, HookKind::PostStart),
            Task::Hook(name("b"), 0, HookKind::PreStop),
            Task::Probe(name("a"), 0, ProbeKind::Readiness),
            Task::Stop(name("a"), 0),
        ] {
            under_way.spawn(task, std::future::pending());
        }
        under_way
    }

    /// The outcomes of the tasks that end.
    async fn ends(under_way: &mut UnderWay) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while let Ok(next) = tokio::time::timeout(Duration::from_millis(500), under_way.next()).await {
            outcomes.extend(next);
        }
        outcomes
    }

    /// A pod that was deleted by force kept its IDs for as long as its hook wished.
    #[tokio::test]
    async fn hooks_and_probes_end_with_their_container() {
        let mut under_way = endless();
        let running = InstanceState::Running { since: Moment::from_millis(1) };
        let of = |a: InstanceState| PodSnapshot {
            containers: vec![container("a", a), container("b", running.clone())],
            ..PodSnapshot::default()
        };
        under_way.abort_pointless(Stage::Terminating, &of(running.clone()));
        under_way.abort_pointless(Stage::Terminating, &of(InstanceState::Unknown));
        assert_eq!((ends(&mut under_way).await, under_way.tasks().len()), (Vec::new(), 4));
        under_way.abort_pointless(Stage::Terminating, &of(ended()));
        let (container, hook) = (name("a"), HookKind::PostStart);
        let failed = Outcome::HookRan { container, attempt: 0, hook, verdict: Verdict::Failure };
        assert_eq!(ends(&mut under_way).await, [failed]);
        let left = [Task::Stop(name("a"), 0), Task::Hook(name("b"), 0, HookKind::PreStop)];
        assert_eq!(under_way.tasks(), left.into());
    }

    #[tokio::test]
    async fn hooks_and_probes_end_with_their_pod_and_when_their_container_is_gone() {
        for (stage, state) in [(Stage::Terminated, Some(InstanceState::Unknown)), (Stage::Syncing, None)] {
            let mut under_way = endless();
            let containers =
                state.into_iter().flat_map(|state| ["a", "b"].map(|n| container(n, state.clone())));
            let snapshot = PodSnapshot { containers: containers.collect(), ..PodSnapshot::default() };
            under_way.abort_pointless(stage, &snapshot);
            assert_eq!((ends(&mut under_way).await.len(), under_way.tasks().len()), (2, 1));
        }
    }
}
