//! The steps of a pod's start, measured one by one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More steps than this are not kept: a pod can have any number of containers, and each can be tried again and again.
const MOST: usize = 64;

/// What a step of a pod's start is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepKind {
    /// Its name is claimed, and its definition recorded.
    Record,
    /// Its host IDs are leased, and its directories made.
    HostIds,
    /// Its volumes are set up.
    Volumes,
    /// Its sandbox is made.
    Sandbox,
    /// An image is looked up, and pulled if it must be.
    Image,
    /// A container is created and started.
    Container,
}

impl StepKind {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::HostIds => "host IDs",
            Self::Volumes => "volumes",
            Self::Sandbox => "sandbox",
            Self::Image => "image",
            Self::Container => "container",
        }
    }
}

/// A step of a pod's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartStep {
    /// What it is about.
    pub kind: StepKind,
    /// The container that it is done for; empty for the pod.
    pub container: String,
    /// When it began, after the pod was first seen.
    pub begin: Duration,
    /// How long it took; `None` while it is under way.
    pub took: Option<Duration>,
}

/// The steps of a pod's start, and when it ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartTimes {
    /// In the order in which they began. Some are done beside others.
    pub steps: Vec<StartStep>,
    /// When the pod was past the phase `Pending`, after it was first seen; `None` before.
    pub runs: Option<Duration>,
}

/// Records the steps of one start. Clones are of the same start.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartSteps(Option<Arc<Recorded>>);

#[derive(Debug)]
struct Recorded {
    seen: Instant,
    times: Mutex<StartTimes>,
}

impl Recorded {
    fn times(&self) -> MutexGuard<'_, StartTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step that is under way. It ends when this is dropped.
#[must_use]
pub(crate) struct Step(Option<(Arc<Recorded>, usize)>);

impl StartSteps {
    /// The start of a pod that was first seen at this time.
    pub(crate) fn since(seen: Instant) -> Self {
        Self(Some(Arc::new(Recorded { seen, times: Mutex::default() })))
    }

    /// Of a pod that an earlier process started: nothing is recorded.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// When the pod was first seen.
    pub(crate) fn seen(&self) -> Option<Instant> {
        self.0.as_ref().map(|recorded| recorded.seen)
    }

    /// Begins a step of the pod.
    pub(crate) fn begin(&self, kind: StepKind) -> Step {
        self.begin_for(kind, "")
    }

    /// Begins a step for a container of the pod.
    pub(crate) fn begin_for(&self, kind: StepKind, container: &str) -> Step {
        let Some(recorded) = &self.0 else { return Step(None) };
        let mut times = recorded.times();
        if times.runs.is_some() || times.steps.len() >= MOST {
            return Step(None);
        }
        let begin = recorded.seen.elapsed();
        times.steps.push(StartStep { kind, container: container.to_owned(), begin, took: None });
        Step(Some((Arc::clone(recorded), times.steps.len() - 1)))
    }

    /// The pod runs: what is done for it later is not of its start.
    pub(crate) fn end(&self) {
        let Some(recorded) = &self.0 else { return };
        let mut times = recorded.times();
        if times.runs.is_none() {
            times.runs = Some(recorded.seen.elapsed());
        }
    }

    /// The steps until now; `None` of a pod that an earlier process started.
    pub(crate) fn times(&self) -> Option<StartTimes> {
        self.0.as_ref().map(|recorded| recorded.times().clone())
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let Some((recorded, index)) = &self.0 else { return };
        let now = recorded.seen.elapsed();
        if let Some(step) = recorded.times().steps.get_mut(*index) {
            step.took = Some(now.saturating_sub(step.begin));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_lasts_until_it_is_dropped_and_none_begins_once_the_pod_runs() {
        let steps = StartSteps::since(Instant::now());
        let sandbox = steps.begin(StepKind::Sandbox);
        let image = steps.clone().begin_for(StepKind::Image, "app");
        drop(sandbox);
        let under_way = steps.times().unwrap();
        let kinds: Vec<_> = under_way.steps.iter().map(|step| (step.kind, step.took.is_some())).collect();
        assert_eq!(kinds, [(StepKind::Sandbox, true), (StepKind::Image, false)]);
        steps.end();
        drop(image);
        drop(steps.begin_for(StepKind::Container, "app"));
        let times = steps.times().unwrap();
        assert_eq!((times.steps.len(), times.steps[1].container.as_str()), (2, "app"));
        assert!(times.steps[1].took.is_some());
        let runs = times.runs;
        steps.end();
        assert_eq!(steps.times().unwrap().runs, runs);
    }

    #[test]
    fn a_pod_of_an_earlier_process_has_no_start() {
        let steps = StartSteps::none();
        drop(steps.begin(StepKind::Volumes));
        steps.end();
        assert_eq!((steps.times(), steps.seen()), (None, None));
    }

    #[test]
    fn a_start_that_is_tried_again_and_again_does_not_grow_without_end() {
        let steps = StartSteps::since(Instant::now());
        (0..10 * MOST).for_each(|_| drop(steps.begin_for(StepKind::Container, "app")));
        assert_eq!(steps.times().unwrap().steps.len(), MOST);
    }
}
