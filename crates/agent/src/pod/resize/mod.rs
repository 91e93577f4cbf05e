//! Resizes of a running pod in place: its allocated resources have changed, and its cgroup and its containers get them.
//!
//! | module | what is in it |
//! |---|---|
//! | `amounts` | what a container uses of CPU and memory by its spec, and how a change of it is applied |
//! | `record` | a resize that is not complete, as the pod's record has it |
//! | `progress` | the same in the pod's worker: what is to be done next, and how it went |
//! | `actuate` | the calls to the kernel and to the runtime, in a safe order |
//! | `summary` | the messages of events |

pub(crate) mod actuate;
pub(crate) mod amounts;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod summary;

use std::collections::BTreeSet;
use std::sync::Arc;

use lifecycle::{ContainerName, Moment, Stage, Task};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tracing::{Instrument, warn};
use types::reason;

use self::actuate::{Actuation, Outcome};
use self::progress::{Begun, Progress, Told};
use self::record::ResizeRecord;
use self::summary::resize_message;
use crate::cri::observe::PodSnapshot;
use crate::pod::context::PodContext;
use crate::pod::executor::ActionExecutor;
use crate::ports::EventType;
use crate::shared::blocking;
use crate::status::resources::Shown;
use crate::status::resources_view::ResourcesStatus;

/// The resizes of the pod of a worker.
pub(crate) struct Resizing {
    progress: Progress,
    tries: JoinSet<Outcome>,
    /// Counts the pod among those that are resized.
    counted: Option<crate::metrics::resizes::Counted>,
}

impl Resizing {
    /// With what an earlier process left.
    pub(crate) fn new(record: Option<ResizeRecord>, now: Moment) -> Self {
        Self { progress: Progress::new(record, now), tries: JoinSet::new(), counted: None }
    }

    /// What of the pod does not have its resources yet.
    pub(crate) fn record(&self) -> Option<ResizeRecord> {
        self.progress.record().cloned()
    }

    /// Held while the pod is resized.
    pub(crate) fn gate(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.progress.gate)
    }

    /// Notes which instances there are; those that get their resources by a restart only.
    pub(crate) fn outdated(
        &mut self,
        executor: &ActionExecutor,
        snapshot: &PodSnapshot,
        under_way: &BTreeSet<Task>,
    ) -> BTreeSet<(ContainerName, u32)> {
        self.progress.observe(snapshot, under_way);
        self.progress.outdated(&executor.context.spec)
    }

    /// Notes instances that were ordered since the last observation.
    pub(crate) fn expect(&mut self, under_way: &BTreeSet<Task>) {
        self.progress.expect(under_way);
    }

    /// Begins a try if one is due. A pod that ends is not resized.
    pub(crate) fn turn(&mut self, executor: &ActionExecutor, stage: Stage, snapshot: &PodSnapshot) {
        if stage != Stage::Syncing {
            self.progress.abandon();
        }
        self.count(executor);
        let generation = self.progress.record().and_then(|record| record.generation);
        let (context, now) = (&executor.context, executor.shared.clock.now());
        if !self.tries.is_empty() {
            return;
        }
        let Some((steps, gate)) = self.progress.next(&context.spec, snapshot, now) else { return };
        let actuation = Actuation {
            shared: Arc::clone(&executor.shared),
            context: Arc::clone(context),
            generation,
            sandbox: snapshot.current().map(|sandbox| sandbox.id.clone()),
            steps,
        };
        self.tries.spawn(actuation.run(gate).instrument(context.span.clone()));
    }

    fn count(&mut self, executor: &ActionExecutor) {
        let is_resized = self.progress.record().is_some();
        if is_resized != self.counted.is_some() {
            self.counted = is_resized.then(|| executor.shared.metrics.resizes.count());
        }
    }

    /// Waits for the end of the try that is under way; without one, for ever.
    pub(crate) async fn next(&mut self) -> Outcome {
        match self.tries.join_next().await {
            Some(Ok(outcome)) => outcome,
            Some(Err(broken)) => {
                Outcome { failed: Some(format!("the resize ended early: {broken}")), ..Outcome::default() }
            }
            None => std::future::pending().await,
        }
    }

    /// Notes how a try went, and tells of it.
    pub(crate) async fn done(&mut self, executor: &ActionExecutor, outcome: Outcome) {
        let ActionExecutor { context, shared, place, .. } = executor;
        let told = self.progress.done(outcome, &context.spec, shared.clock.now());
        let (place, resize) = (place.clone(), self.record());
        shared.running.resized(&context.uid, resize.clone());
        if let Err(error) = blocking("recording a resize", move || place.record_resize(resize)).await {
            warn!("a later process may repeat the resize of the pod: {error}");
        }
        let events = shared.events_of(context);
        match told {
            Told::Nothing => {}
            Told::Completed(generation) => {
                let text = resize_message("Pod resize completed", &context.spec, generation, "");
                events.pod(EventType::Normal, reason::RESIZE_COMPLETED, text);
            }
            Told::Failed { generation, cause } => {
                let text = resize_message("Pod resize error", &context.spec, generation, &cause);
                events.pod(EventType::Warning, reason::RESIZE_ERROR, text);
            }
        }
        self.count(executor);
    }

    /// What remains to be done when the pod gets a new definition, for its record.
    pub(crate) fn updated(
        &mut self,
        before: &PodContext,
        after: &PodContext,
    ) -> (Option<ResizeRecord>, Begun) {
        self.progress.planned(&before.spec, &after.spec, after.pod.metadata.generation)
    }

    /// Begins what was planned, and tells of it.
    pub(crate) fn begin(&mut self, begun: Begun, executor: &ActionExecutor) {
        self.progress.begin(executor.shared.clock.now());
        executor.shared.running.resized(&executor.context.uid, self.record());
        if begun == Begun::Resize {
            let context = &executor.context;
            let generation = context.pod.metadata.generation;
            let text = resize_message("Pod resize started", &context.spec, generation, "");
            let events = executor.shared.events_of(context);
            events.pod(EventType::Normal, reason::RESIZE_STARTED, text);
        }
    }

    /// When the next try is due, if it is not yet.
    pub(crate) fn wakes_at(&self, now: Moment) -> Option<Moment> {
        self.progress.wakes_at(now)
    }

    /// The resources in the pod's status.
    pub(crate) fn status(&self, context: &PodContext, snapshot: &PodSnapshot) -> ResourcesStatus {
        let shown = Shown {
            spec: &context.spec,
            ephemeral: &context.ephemeral,
            resize: self.progress.record(),
            is_running: snapshot.current().is_some(),
        };
        shown.status(self.progress.view(), |name| snapshot.resources(name))
    }
}
