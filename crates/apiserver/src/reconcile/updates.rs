//! Changed definitions of a pod that runs: one is applied at a time, and again after a pause if that has failed.

use std::sync::Arc;

use agent::PodAllocation;
use tokio::time::Instant;

use super::admitted::pod_of;
use super::pause_after;
use crate::pods::ApiPod;

/// The definition that a pod runs with, and the one that it gets.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// `None` if the pod is only stopped.
    applied: Option<Arc<ApiPod>>,
    /// What a task applies now. The next one waits for it: they must not overtake each other.
    under_way: Option<Arc<ApiPod>>,
    /// The newest one that could not be applied.
    failed: Option<Failed>,
}

#[derive(Debug)]
struct Failed {
    definition: Arc<ApiPod>,
    /// How often it could not be applied.
    times: u32,
    /// When it is tried again.
    until: Instant,
}

/// What is done about a definition that the pod is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    /// Nothing now.
    Nothing,
    /// It is applied.
    Apply,
    /// The pod has it; another one that could not be applied is wanted no more.
    Reverted,
}

impl Updates {
    /// Those of a pod that was started with this definition.
    pub(super) fn of(applied: Option<Arc<ApiPod>>) -> Self {
        Self { applied, ..Self::default() }
    }

    /// The newest definition that the pod has or gets.
    pub(super) fn newest(&self) -> Option<&Arc<ApiPod>> {
        self.under_way.as_ref().or(self.applied.as_ref())
    }

    /// When the definition that could not be applied is tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.failed.as_ref().filter(|_| self.under_way.is_none()).map(|failed| failed.until)
    }

    /// Takes the definition that the pod is to have. It is under way if it is to be applied.
    pub(super) fn next(&mut self, wanted: &Arc<ApiPod>, now: Instant) -> Update {
        let Some(applied) = self.applied.as_ref().filter(|_| self.under_way.is_none()) else {
            return Update::Nothing;
        };
        if applied.asks_the_same(wanted) {
            return if self.failed.take().is_some() { Update::Reverted } else { Update::Nothing };
        }
        let waits = |failed: &Failed| failed.until > now && failed.definition.asks_the_same(wanted);
        if self.failed.as_ref().is_some_and(waits) {
            return Update::Nothing;
        }
        self.under_way = Some(Arc::clone(wanted));
        Update::Apply
    }

    /// The definition that was under way is applied.
    pub(super) fn succeeded(&mut self) {
        if let Some(definition) = self.under_way.take() {
            (self.applied, self.failed) = (Some(definition), None);
        }
    }

    /// The definition that was under way could not be applied: the pod has the former one. Returns it if it was a resize.
    pub(super) fn failed(&mut self, now: Instant) -> Option<Arc<ApiPod>> {
        let definition = self.under_way.take()?;
        let before = self.failed.as_ref().filter(|failed| failed.definition.asks_the_same(&definition));
        let times = before.map_or(0, |failed| failed.times);
        let until = now + pause_after(times);
        self.failed =
            Some(Failed { definition: Arc::clone(&definition), times: times.saturating_add(1), until });
        let spec = |pod: &Arc<ApiPod>| pod_of(pod).and_then(|pod| pod.spec.clone());
        let (before, after) = (spec(self.applied.as_ref()?)?, spec(&definition)?);
        (!PodAllocation::of(&before).is_of(&after)).then_some(definition)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn pod(cpu: &str, label: &str) -> Arc<ApiPod> {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "labels": {"of": label}},
            "spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        Arc::new(ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap())
    }

    /// The definition was noted as applied before it was, so that an update that failed once was never tried again.
    #[test]
    fn an_update_that_fails_is_tried_again_after_a_longer_and_longer_pause() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut updates = Updates::of(Some(pod("1", "x")));
        assert_eq!(updates.next(&pod("2", "x"), now), Update::Apply);
        assert_eq!(updates.next(&pod("3", "x"), now), Update::Nothing, "one at a time");
        assert_eq!((updates.newest(), updates.due()), (Some(&pod("2", "x")), None));
        assert_eq!(updates.failed(now), Some(pod("2", "x")));
        assert_eq!((updates.newest(), updates.due()), (Some(&pod("1", "x")), Some(now + second * 10)));
        assert_eq!(updates.next(&pod("2", "x"), now + second * 9), Update::Nothing);
        let again = now + second * 10;
        assert_eq!(updates.next(&pod("2", "x"), again), Update::Apply);
        assert!(updates.failed(again).is_some());
        assert_eq!(updates.due(), Some(again + second * 20));
        assert_eq!(updates.next(&pod("2", "x"), again + second * 20), Update::Apply);
        updates.succeeded();
        assert_eq!((updates.newest(), updates.due()), (Some(&pod("2", "x")), None));
        assert_eq!(updates.next(&pod("2", "x"), now), Update::Nothing);
    }

    #[test]
    fn another_definition_does_not_wait_for_one_that_failed() {
        let now = Instant::now();
        let mut updates = Updates::of(Some(pod("1", "x")));
        assert_eq!(updates.next(&pod("2", "x"), now), Update::Apply);
        assert!(updates.failed(now).is_some());
        assert_eq!(updates.next(&pod("3", "x"), now), Update::Apply);
        assert!(updates.failed(now).is_some());
        assert_eq!(updates.next(&pod("1", "x"), now), Update::Reverted);
        assert_eq!((updates.next(&pod("1", "x"), now), updates.due()), (Update::Nothing, None));
    }

    #[test]
    fn only_other_resources_are_a_resize() {
        let now = Instant::now();
        let mut updates = Updates::of(Some(pod("1", "x")));
        assert_eq!(updates.next(&pod("1000m", "y"), now), Update::Apply);
        assert_eq!(updates.failed(now), None);
        assert_eq!(Updates::of(None).next(&pod("1", "x"), now), Update::Nothing);
    }
}
