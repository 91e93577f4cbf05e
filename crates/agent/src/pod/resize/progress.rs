//! A resize in the pod's worker: what is to be done next, and how it went.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lifecycle::{ContainerName, InstanceState, Moment, Task};
use manifest::k8s_openapi::api::core::v1::{Container, PodSpec};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::cri::observe::PodSnapshot;
use crate::pod::resize::actuate::{Outcome, Step};
use crate::pod::resize::amounts::Amounts;
use crate::pod::resize::record::{Actuated, Change, ResizeRecord};
use crate::status::resources_view::ResizeView;
use types::reason;

/// The pause before a resize that failed is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// The resize of a pod, if there is one, and what is needed to begin one.
#[derive(Debug)]
pub(crate) struct Progress {
    record: Option<ResizeRecord>,
    /// What comes in its place once a new definition is recorded.
    planned: Option<Option<ResizeRecord>>,
    /// Why the last try failed.
    error: Option<String>,
    /// Since when it is under way, or fails.
    since: Moment,
    /// When it is tried again.
    due: Moment,
    /// The newest instance of each container; one may still be on its way.
    instances: BTreeMap<String, u32>,
    /// Held while the pod is resized: a container is started before or after that.
    pub(crate) gate: Arc<Mutex<()>>,
}

/// A new definition resizes the pod, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    Resize,
    Nothing,
}

/// What became of a resize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing that is to be reported.
    Nothing,
    /// It is complete; the generation that asked for it.
    Completed(Option<i64>),
    /// It failed for another reason than before.
    Failed { generation: Option<i64>, cause: String },
}

impl Progress {
    /// With what an earlier process left.
    pub(crate) fn new(record: Option<ResizeRecord>, now: Moment) -> Self {
        Self {
            record,
            planned: None,
            error: None,
            since: now,
            due: now,
            instances: BTreeMap::new(),
            gate: Arc::default(),
        }
    }

    pub(crate) fn record(&self) -> Option<&ResizeRecord> {
        self.record.as_ref()
    }

    /// What remains to be done with a new definition, and whether that is a resize. Nothing changes before [`Self::begin`].
    pub(crate) fn planned(
        &mut self,
        before: &PodSpec,
        after: &PodSpec,
        generation: Option<i64>,
    ) -> (Option<ResizeRecord>, Begun) {
        let change = Change { before, after, generation, instances: Some(&self.instances) };
        let next = ResizeRecord::begin(self.record.clone(), &change);
        let begun = if next == self.record { Begun::Nothing } else { Begun::Resize };
        self.planned = (begun == Begun::Resize).then(|| next.clone());
        (next, begun)
    }

    /// The new definition is recorded.
    pub(crate) fn begin(&mut self, now: Moment) {
        if let Some(next) = self.planned.take() {
            (self.record, self.error, self.since, self.due) = (next, None, now, now);
        }
    }

    /// Notes instances that were ordered since the last observation: they are made with the definition before an update.
    pub(crate) fn expect(&mut self, under_way: &BTreeSet<Task>) {
        for task in under_way {
            if let Task::Start(name, attempt) = task {
                let known = self.instances.entry(name.as_str().to_owned()).or_default();
                *known = (*attempt).max(*known);
            }
        }
    }

    /// Notes which instances there are. Those that do not run, and are not about to, need nothing.
    pub(crate) fn observe(&mut self, snapshot: &PodSnapshot, under_way: &BTreeSet<Task>) {
        let mut newest: BTreeMap<String, u32> = BTreeMap::new();
        let seen = snapshot.containers.iter().map(|one| (one.seen.container.as_str(), one.seen.attempt));
        let coming = under_way.iter().filter_map(|task| match task {
            Task::Start(name, attempt) => Some((name.as_str(), *attempt)),
            _ => None,
        });
        for (name, attempt) in seen.chain(coming) {
            let known = newest.entry(name.to_owned()).or_default();
            *known = attempt.max(*known);
        }
        if let Some(record) = &mut self.record {
            record.containers.retain(|name, known| {
                let Some(newest) = newest.get(name) else { return false };
                *known.attempt.get_or_insert(*newest) == *newest
                    && !has_ended(snapshot, name, *newest, under_way)
            });
        }
        self.instances = newest;
    }

    /// The instances that get their new resources only by a restart.
    pub(crate) fn outdated(&self, spec: &PodSpec) -> BTreeSet<(ContainerName, u32)> {
        let containers = self.record.iter().flat_map(|record| &record.containers);
        let outdated = containers.filter_map(|(name, known)| {
            let container = find(spec, name)?;
            let wanted = Amounts::of(spec.resources.as_ref(), container.resources.as_ref());
            let needs = known.amounts().needs_restart(&wanted, container) && !is_plain_init(spec, name);
            needs.then(|| Some((ContainerName::new(name.as_str()).ok()?, known.attempt?))).flatten()
        });
        outdated.collect()
    }

    /// What is to be done now: the containers that are given other resources while they run, and with them the pod's cgroup.
    /// `None` if there is nothing, or it is not due. The gate is held from here on.
    pub(crate) fn next(
        &self,
        spec: &PodSpec,
        snapshot: &PodSnapshot,
        now: Moment,
    ) -> Option<(Vec<Step>, OwnedMutexGuard<()>)> {
        let record = self.record.as_ref().filter(|_| self.due <= now)?;
        // First the containers end that are started anew: their memory counts.
        if !self.outdated(spec).is_empty() {
            return None;
        }
        let gate = Arc::clone(&self.gate).try_lock_owned().ok()?;
        let steps = record.containers.iter().filter_map(|(name, known)| {
            let container = find(spec, name)?;
            let running = snapshot.running();
            let found = running.iter().find(|one| one.name == *name && Some(one.attempt) == known.attempt)?;
            Some(Step {
                id: found.id.clone(),
                attempt: found.attempt,
                container: container.clone(),
                has: known.amounts(),
                wanted: Amounts::of(spec.resources.as_ref(), container.resources.as_ref()),
            })
        });
        Some((steps.collect(), gate))
    }

    /// When the next try is due, if it is not yet.
    pub(crate) fn wakes_at(&self, now: Moment) -> Option<Moment> {
        self.record.as_ref().map(|_| self.due).filter(|due| *due > now)
    }

    /// Notes how a try went that was made for `generation` of the spec.
    pub(crate) fn done(&mut self, outcome: Outcome, spec: &PodSpec, now: Moment) -> Told {
        let Some(record) = &mut self.record else { return Told::Nothing };
        for (name, attempt, amounts) in outcome.applied {
            let Some(known) = record.containers.get_mut(&name).filter(|known| known.attempt == Some(attempt))
            else {
                continue;
            };
            let resources = amounts.written_into(find(spec, &name).and_then(|one| one.resources.as_ref()));
            *known = Actuated { attempt: Some(attempt), resources };
        }
        record.forget_equal(spec);
        let generation = record.generation;
        match outcome.failed {
            Some(cause) => {
                self.due = now.after(RETRY);
                if self.error.as_ref() == Some(&cause) {
                    return Told::Nothing;
                }
                if self.error.is_none() {
                    self.since = now;
                }
                self.error = Some(cause.clone());
                Told::Failed { generation, cause }
            }
            // Another definition has come meanwhile.
            None if outcome.generation != generation || !record.containers.is_empty() => {
                self.due = now;
                Told::Nothing
            }
            None => {
                (self.record, self.error) = (None, None);
                Told::Completed(generation)
            }
        }
    }

    /// Forgets the resize of a pod that ends.
    pub(crate) fn abandon(&mut self) {
        self.record = None;
    }

    /// The pod's condition `PodResizeInProgress`; `None` if it has none.
    pub(crate) fn view(&self) -> Option<ResizeView> {
        let record = self.record.as_ref()?;
        let reason = self.error.as_ref().map(|_| reason::ERROR.to_owned());
        Some(ResizeView {
            generation: record.generation,
            reason: reason.unwrap_or_default(),
            message: self.error.clone().unwrap_or_default(),
            since: self.since.millis(),
        })
    }
}

fn find<'a>(spec: &'a PodSpec, name: &str) -> Option<&'a Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name)
}

/// Whether it is an init container that runs to its end: it is never restarted for its resources.
fn is_plain_init(spec: &PodSpec, name: &str) -> bool {
    let mut init = spec.init_containers.iter().flatten();
    init.any(|one| one.name == name && one.restart_policy.as_deref() != Some("Always"))
}

/// Whether an instance runs no more and is not about to.
fn has_ended(snapshot: &PodSnapshot, name: &str, attempt: u32, under_way: &BTreeSet<Task>) -> bool {
    let is_coming =
        |task: &Task| matches!(task, Task::Start(one, n) if one.as_str() == name && *n == attempt);
    if under_way.iter().any(is_coming) {
        return false;
    }
    let found = snapshot
        .containers
        .iter()
        .find(|one| one.seen.container.as_str() == name && one.seen.attempt == attempt);
    found.is_none_or(|found| matches!(found.seen.state, InstanceState::Exited(_) | InstanceState::Created))
}
