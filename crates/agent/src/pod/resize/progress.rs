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
            if self.instances.get(&name) != Some(&attempt) {
                continue;
            }
            // A definition that came meanwhile may have dropped the container, because it asks for what the instance had before.
            let resources = amounts.written_into(find(spec, &name).and_then(|one| one.resources.as_ref()));
            record.containers.insert(name, Actuated { attempt: Some(attempt), resources });
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(cpu: &str) -> PodSpec {
        let one = json!({"name": "a", "image": "i", "resources": {"limits": {"cpu": cpu}}});
        serde_json::from_value(json!({"containers": [one]})).unwrap()
    }

    /// Progress of a pod whose container "a" has this newest instance.
    fn with_instance(attempt: u32) -> Progress {
        let mut progress = Progress::new(None, Moment::from_millis(0));
        let start = Task::Start(ContainerName::new("a").unwrap(), attempt);
        progress.expect(&BTreeSet::from([start]));
        progress
    }

    fn update(progress: &mut Progress, before: &PodSpec, after: &PodSpec, generation: i64) {
        assert_eq!(progress.planned(before, after, Some(generation)).1, Begun::Resize);
        progress.begin(Moment::from_millis(0));
    }

    fn applied(generation: i64, attempt: u32, spec: &PodSpec) -> Outcome {
        let amounts = Amounts::of(None, spec.containers[0].resources.as_ref());
        let applied = vec![("a".to_owned(), attempt, amounts)];
        Outcome { generation: Some(generation), applied, failed: None }
    }

    /// The limit was raised from 1 to 2. It was lowered to 1 again before the kernel had taken the 2, so that there seemed to be
    /// nothing to do, and the container kept 2.
    #[test]
    fn a_resize_that_is_reverted_while_it_is_tried_is_undone() {
        let (one, two) = (spec("1"), spec("2"));
        let mut progress = with_instance(0);
        update(&mut progress, &one, &two, 2);
        update(&mut progress, &two, &one, 3);
        let now = Moment::from_millis(1000);
        assert_eq!(progress.done(applied(2, 0, &two), &one, now), Told::Nothing);
        let has = progress.record().unwrap().containers["a"].amounts();
        assert_eq!((has.cpu.limit, progress.wakes_at(now)), (2000, None));
        assert_eq!(progress.done(applied(3, 0, &one), &one, now), Told::Completed(Some(3)));
        assert!(progress.record().is_none());
    }

    #[test]
    fn what_an_older_instance_has_says_nothing_of_the_newest() {
        let (one, two) = (spec("1"), spec("2"));
        let mut progress = with_instance(1);
        update(&mut progress, &one, &two, 2);
        update(&mut progress, &two, &one, 3);
        assert_eq!(progress.done(applied(2, 0, &two), &one, Moment::from_millis(0)), Told::Nothing);
        assert!(progress.record().unwrap().containers.is_empty());
    }
}
