//! Reconciles the pods that the API server has bound to this node with those that the agent runs.
//!
//! Each pod passes through stages ([`Stage`]); slow steps are tasks, so that no pod waits for another. A pod that cannot
//! be started stays Pending and is tried again: a refusal for good would make a controller create pods without end.

mod work;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::ports::{BoxFuture, Clock, Event, EventObject, EventSink, EventType, PodRef, PodSource};
use agent::{Admitted, Agent, Handle, PodUpdate};
use manifest::Object;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::objects::ApiObjects;
use crate::pods::{ApiPod, PodSet, PodWatch};
use crate::status::ApiStatuses;
use work::{Done, StartError};

/// The pause before a pod that could not be started is tried again, as the kubelet's.
const RETRY: Duration = Duration::from_secs(10);

/// Decides whether and how a pod runs on this node.
pub trait Admission: Send + Sync {
    /// Admits a pod. The error says why it cannot run now, and what to do.
    fn admit<'a>(&'a self, pod: &'a Object) -> BoxFuture<'a, Result<Box<Admitted>, String>>;
}

/// What the reconciler works with.
pub struct Ports {
    /// Runs the pods.
    pub agent: Agent,
    /// The agent's state directory.
    pub state: PathBuf,
    /// Decides on each pod before it is started or changed.
    pub admission: Arc<dyn Admission>,
    /// Receives the end of pods.
    pub statuses: Arc<ApiStatuses>,
    /// Receives why pods cannot be started.
    pub events: Arc<dyn EventSink>,
    /// The ConfigMaps and Secrets that pods reference.
    pub objects: ApiObjects,
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
}

/// Where a pod is on its way through this node.
enum Stage {
    /// A task admits and starts it, or adopts it from an earlier process.
    Starting,
    /// It could not be started, and is tried again.
    Waiting { until: Instant },
    /// Its worker runs it.
    Running {
        /// The definition that it runs with; `None` if it is only stopped.
        applied: Option<Arc<ApiPod>>,
        /// The shortest grace period of the deletions that were ordered; `None` if none was.
        deletion: Option<Grace>,
    },
    /// No container of it runs, and none will. Its logs stay until it is deleted.
    Ended(Box<Handle>),
    /// A task removes what is left of it.
    Removing,
    /// Nothing of it is left on this node.
    Finished,
}

/// The grace period of a deletion; `None` for the pod's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grace(Option<Duration>);

struct Managed {
    pod: PodRef,
    stage: Stage,
}

/// Runs the pods of the source until `shutdown` is done. The pods keep running then.
pub async fn run(ports: Ports, mut source: PodWatch, shutdown: impl Future<Output = ()>) {
    let mut changes = ports.objects.subscribe();
    let mut reconciler =
        Reconciler { ports: Arc::new(ports), set: None, pods: HashMap::new(), tasks: JoinSet::new() };
    tokio::pin!(shutdown);
    loop {
        let retry = reconciler.next_retry();
        tokio::select! {
            () = &mut shutdown => return,
            set = source.next() => {
                let Some(set) = set else { return };
                if reconciler.set.replace(set).is_none() {
                    reconciler.end_unbound().await;
                }
                reconciler.reconcile().await;
            }
            Some(done) = reconciler.tasks.join_next() => {
                match done {
                    Ok(done) => reconciler.note(done),
                    Err(cause) => error!("a task of a pod ended early: {cause}"),
                }
                reconciler.reconcile().await;
            }
            changed = changes.changed() => {
                if changed.is_ok() {
                    reconciler.ports.agent.refresh().await;
                }
            }
            () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                reconciler.reconcile().await;
            }
        }
    }
}

struct Reconciler {
    ports: Arc<Ports>,
    /// The newest set of pods; `None` until the first complete one.
    set: Option<Arc<PodSet>>,
    /// By UID.
    pods: HashMap<String, Managed>,
    tasks: JoinSet<Done>,
}

impl Reconciler {
    fn next_retry(&self) -> Option<Instant> {
        let until = self.pods.values().filter_map(|managed| match managed.stage {
            Stage::Waiting { until } => Some(until),
            _ => None,
        });
        until.min()
    }

    /// Ends the recorded pods of earlier processes that are bound to this node no more. Only a complete set shows that.
    async fn end_unbound(&mut self) {
        let Some(set) = self.set.clone() else { return };
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
            if set.by_uid(record.uid.as_str()).is_some() {
                continue;
            }
            let pod = PodRef {
                namespace: record.namespace.clone(),
                name: record.name.clone(),
                uid: record.uid.clone(),
            };
            info!("pod {}/{} is bound to this node no more; it is stopped", pod.namespace, pod.name);
            self.manage(&pod, Stage::Starting);
            self.tasks.spawn(work::end(Arc::clone(&self.ports), pod, None));
        }
    }

    /// Takes each pod one step further, as far as it is known what to do.
    async fn reconcile(&mut self) {
        let Some(set) = self.set.clone() else { return };
        let own = set.pods.iter().filter(|pod| pod.mirror.is_none());
        for wanted in own {
            match self.pods.contains_key(wanted.pod.uid.as_str()) {
                true => self.step(wanted.pod.uid.as_str(), Some(wanted)).await,
                false => self.begin(wanted),
            }
        }
        let gone: BTreeSet<String> =
            self.pods.keys().filter(|uid| set.by_uid(uid).is_none()).cloned().collect();
        for uid in gone {
            self.step(&uid, None).await;
        }
    }

    /// Starts a pod that is new here.
    fn begin(&mut self, wanted: &Arc<ApiPod>) {
        let ports = Arc::clone(&self.ports);
        if wanted.deletion.is_none() && !wanted.is_terminal() {
            self.tasks.spawn(work::start(ports, Arc::clone(wanted)));
        } else {
            let grace = wanted.deletion.and_then(|deletion| deletion.grace);
            self.tasks.spawn(work::end(ports, wanted.pod.clone(), grace));
        }
        self.manage(&wanted.pod, Stage::Starting);
    }

    /// Takes a known pod a step further; `wanted` is `None` if it is bound to this node no more.
    async fn step(&mut self, uid: &str, wanted: Option<&Arc<ApiPod>>) {
        let Some(managed) = self.pods.get_mut(uid) else { return };
        let deletion = match wanted {
            None => Some(Grace(None)),
            Some(wanted) => wanted.deletion.map(|deletion| Grace(deletion.grace)),
        };
        match (&mut managed.stage, wanted) {
            (Stage::Starting | Stage::Removing, _) => {}
            (Stage::Waiting { .. }, _) if deletion.is_some() => {
                managed.stage = Stage::Starting;
                self.tasks.spawn(work::end(Arc::clone(&self.ports), managed.pod.clone(), None));
            }
            (Stage::Waiting { until }, Some(wanted)) if *until <= Instant::now() => {
                managed.stage = Stage::Starting;
                self.tasks.spawn(work::start(Arc::clone(&self.ports), Arc::clone(wanted)));
            }
            (Stage::Running { applied, deletion: ordered }, _) => {
                if let Some(grace) = deletion {
                    if *ordered != Some(grace) {
                        *ordered = Some(grace);
                        let PodRef { namespace, name, .. } = managed.pod.clone();
                        let delete = PodUpdate::Delete { namespace, name, grace: grace.0 };
                        // A deletion does not fail.
                        let _ = self.ports.agent.sync(delete).await;
                    }
                } else if let (Some(wanted), Some(before)) = (wanted, applied)
                    && !before.asks_the_same(wanted)
                {
                    *before = Arc::clone(wanted);
                    self.tasks.spawn(work::update(Arc::clone(&self.ports), Arc::clone(wanted)));
                }
            }
            (Stage::Ended(_), _) if deletion.is_some() => {
                if let Stage::Ended(handle) = std::mem::replace(&mut managed.stage, Stage::Removing) {
                    self.tasks.spawn(work::remove(managed.pod.clone(), handle));
                }
            }
            (Stage::Finished, None) => {
                self.pods.remove(uid);
            }
            (Stage::Finished, Some(_)) if deletion.is_some() => self.ports.statuses.finish(&managed.pod),
            (Stage::Waiting { .. } | Stage::Ended(_) | Stage::Finished, _) => {}
        }
    }

    /// Notes what a task has done.
    fn note(&mut self, done: Done) {
        match done {
            Done::Started { pod, applied, handle } => {
                self.manage(&pod, Stage::Running { applied, deletion: None });
                self.tasks.spawn(work::ended(pod, handle));
            }
            Done::NotStarted { pod, error } => {
                self.say(&pod, &error);
                self.manage(&pod, Stage::Waiting { until: Instant::now() + RETRY });
            }
            Done::Updated { pod, outcome } => {
                if let Err(error) = outcome {
                    self.say(&pod, &error);
                }
            }
            Done::Ended { pod, handle } => self.manage(&pod, Stage::Ended(handle)),
            Done::Removed { pod } => {
                self.ports.objects.unregister(&pod.uid);
                self.ports.statuses.finish(&pod);
                self.manage(&pod, Stage::Finished);
            }
        }
    }

    fn manage(&mut self, pod: &PodRef, stage: Stage) {
        self.pods.insert(pod.uid.as_str().to_owned(), Managed { pod: pod.clone(), stage });
    }

    /// Says why a pod could not be started or changed, in the log and as an event.
    fn say(&self, pod: &PodRef, error: &StartError) {
        warn!("pod {}/{}: {}", pod.namespace, pod.name, error.message);
        self.ports.events.record(Event {
            kind: EventType::Warning,
            reason: error.reason,
            object: EventObject { pod: pod.clone(), field_path: None },
            image: None,
            message: error.message.clone(),
            time: self.ports.clock.now(),
        });
    }
}
