//! The start of a pod, measured.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lifecycle::Moment;
use manifest::k8s_openapi::api::core::v1::{PodSpec, Volume};

use crate::metrics::pods::PodMetrics;
use crate::pod::context::PodContext;
use crate::status::view::{ContainerView, PodStatus, StateView};

/// How long a pod has been waiting for images: pulls that overlap count once. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct PullTime(Arc<Mutex<Pulls>>);

#[derive(Debug, Default)]
struct Pulls {
    under_way: u32,
    /// Since when one is under way.
    since: Option<Instant>,
    total: Duration,
}

/// A pull that is under way. It ends when this is dropped.
pub(crate) struct Pulling(PullTime);

impl PullTime {
    fn pulls(&self) -> MutexGuard<'_, Pulls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a pull.
    pub(crate) fn begin(&self) -> Pulling {
        let mut pulls = self.pulls();
        pulls.under_way += 1;
        pulls.since.get_or_insert_with(Instant::now);
        drop(pulls);
        Pulling(self.clone())
    }

    fn total(&self) -> Duration {
        let pulls = self.pulls();
        pulls.total + pulls.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Drop for Pulling {
    fn drop(&mut self) {
        let mut pulls = self.0.pulls();
        pulls.under_way = pulls.under_way.saturating_sub(1);
        if pulls.under_way == 0 {
            let took = pulls.since.take().map(|since| since.elapsed()).unwrap_or_default();
            pulls.total += took;
        }
    }
}

/// A new pod until it runs.
#[derive(Debug)]
pub(crate) struct Starting {
    /// When it was first seen; `None` once it is past the phase `Pending`.
    seen: Option<Instant>,
    /// When it was created in the API; `None` once all its containers run, and for a pod that does not count: one that is
    /// not of the API, and one with volumes whose set-up takes as long as others need.
    created: Option<Moment>,
    pulling: PullTime,
}

/// How far a start is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measured {
    /// Something is still to be recorded.
    Part,
    /// All is recorded.
    All,
}

impl Starting {
    pub(crate) fn new(seen: Instant, context: &PodContext, pulling: PullTime) -> Self {
        let created = context.pod.metadata.creation_timestamp.as_ref();
        let created = created.and_then(|time| u64::try_from(time.0.as_millisecond()).ok());
        let created = created.filter(|_| is_stateless(&context.spec)).map(Moment::from_millis);
        Self { seen: Some(seen), created, pulling }
    }

    /// Records what a status shows of the start.
    pub(crate) fn note(&mut self, status: &PodStatus, now: Moment, metrics: &PodMetrics) -> Measured {
        if status.is_up()
            && let Some(seen) = self.seen.take()
        {
            metrics.runs(seen.elapsed());
        }
        if is_started(status)
            && let Some(created) = self.created.take()
        {
            let not_counted = self.pulling.total() + init_time(status);
            metrics.started_within(now.since(created).saturating_sub(not_counted));
        }
        let is_over = self.seen.is_none() && self.created.is_none();
        if is_over || status.is_ending() { Measured::All } else { Measured::Part }
    }
}

/// Whether all regular containers run.
fn is_started(status: &PodStatus) -> bool {
    let runs = |container: &ContainerView| matches!(container.state, StateView::Running { .. });
    !status.containers.is_empty() && status.containers.iter().all(runs)
}

/// How long the init containers ran that have ended.
fn init_time(status: &PodStatus) -> Duration {
    let ends = status.init.iter().filter_map(ContainerView::exit);
    let ran = ends.filter_map(|exit| Some(exit.finished.saturating_sub(exit.started?)));
    Duration::from_millis(ran.fold(0, u64::saturating_add))
}

/// Whether a pod has no volumes but those that the definition of the start-up latency allows.
fn is_stateless(spec: &PodSpec) -> bool {
    let is_light = |volume: &Volume| {
        volume.secret.is_some()
            || volume.config_map.is_some()
            || volume.downward_api.is_some()
            || volume.empty_dir.is_some()
            || volume.projected.is_some()
    };
    spec.volumes.iter().flatten().all(is_light)
}

#[cfg(test)]
mod tests {
    use telemetry::metrics::Registry;

    use super::*;
    use crate::metrics::Metrics;
    use crate::status::view::ExitView;

    #[test]
    fn pulls_that_overlap_count_once() {
        let pulling = PullTime::default();
        assert_eq!(pulling.total(), Duration::ZERO);
        let (one, other) = (pulling.begin(), pulling.begin());
        std::thread::sleep(Duration::from_millis(30));
        drop(one);
        assert!(pulling.total() >= Duration::from_millis(30));
        drop(other);
        let total = pulling.total();
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(pulling.total(), total);
        assert!(total < Duration::from_secs(20), "{total:?}");
    }

    fn container(state: StateView) -> ContainerView {
        ContainerView {
            name: "a".into(),
            state,
            last: None,
            ready: false,
            started: false,
            restarts: 0,
            instance: None,
            previous_id: None,
        }
    }

    fn status(phase: &str, container_state: StateView) -> PodStatus {
        let exit = ExitView {
            code: 0,
            reason: "Completed".into(),
            message: String::new(),
            started: Some(2_000),
            finished: 6_000,
        };
        PodStatus {
            phase: phase.into(),
            stage: "Syncing".into(),
            reason: None,
            message: None,
            started: 0,
            ips: vec![],
            conditions: vec![],
            init: vec![container(StateView::Terminated(exit))],
            containers: vec![container(container_state)],
            ephemeral: vec![],
            generation: None,
            resources: None,
        }
    }

    fn starting(volumes: &str) -> Starting {
        let spec = format!(r#"{{"containers":[{{"name":"a"}}],"volumes":[{{"name":"v",{volumes}}}]}}"#);
        let mut context = PodContext::for_test(&spec);
        let created = serde_json::json!("1970-01-01T00:00:01Z");
        context.pod.metadata.creation_timestamp = serde_json::from_value(created).unwrap();
        Starting::new(Instant::now(), &context, PullTime::default())
    }

    #[test]
    fn a_start_is_measured_once_and_without_its_init_containers() {
        let registry = Registry::default();
        let metrics = Metrics::register(&registry).unwrap().pods;
        let mut start = starting(r#""emptyDir":{}"#);
        let waiting = StateView::Waiting { reason: "ContainerCreating".into(), message: String::new() };
        let now = Moment::from_millis(9_000);
        assert_eq!(start.note(&status("Pending", waiting.clone()), now, &metrics), Measured::Part);
        assert_eq!(start.note(&status("Running", waiting), now, &metrics), Measured::Part);
        let runs = status("Running", StateView::Running { since: 8_000 });
        assert_eq!(start.note(&runs, now, &metrics), Measured::All);
        assert_eq!(start.note(&runs, now, &metrics), Measured::All);
        let text = registry.text();
        // Eight seconds, of which the init container ran four.
        assert!(text.contains("kubelet_pod_start_sli_duration_seconds_sum 4\n"), "{text}");
        assert!(text.contains("kubelet_pod_start_sli_duration_seconds_count 1\n"), "{text}");
        assert!(text.contains("kubelet_pod_start_duration_seconds_count 1\n"), "{text}");
    }

    #[test]
    fn a_pod_with_volumes_of_others_does_not_count_as_a_start() {
        let registry = Registry::default();
        let metrics = Metrics::register(&registry).unwrap().pods;
        let runs = status("Running", StateView::Running { since: 8_000 });
        let mut start = starting(r#""hostPath":{"path":"/srv"}"#);
        assert_eq!(start.note(&runs, Moment::from_millis(9_000), &metrics), Measured::All);
        let text = registry.text();
        assert!(text.contains("kubelet_pod_start_sli_duration_seconds_count 0\n"), "{text}");
        assert!(text.contains("kubelet_pod_start_duration_seconds_count 1\n"), "{text}");
    }
}
