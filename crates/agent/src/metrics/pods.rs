//! Starts of pods, and passes of their workers.

use std::time::{Duration, Instant};

use ids::UserNamespace;
use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, Registry};

/// Histogram buckets in seconds: until a pod runs.
const START_BUCKETS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// What a pass of a worker is about: the `operation_type` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The first one of a pod.
    Create,
    /// A new definition is applied.
    Update,
    /// The pod runs.
    Sync,
    /// The pod is being stopped.
    Kill,
    /// The last one.
    Terminated,
}

impl Pass {
    fn label(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Sync => "sync",
            Self::Kill => "kill",
            Self::Terminated => "terminated",
        }
    }
}

/// Counts starts of pods.
#[derive(Debug, Clone)]
pub(crate) struct PodMetrics {
    started: CounterVec<0>,
    started_errors: CounterVec<0>,
    started_isolated: CounterVec<0>,
    started_isolated_errors: CounterVec<0>,
    closed_gates: CounterVec<1>,
    start_seconds: HistogramVec<0>,
    start_sli_seconds: HistogramVec<0>,
    worker_start_seconds: HistogramVec<0>,
    worker_seconds: HistogramVec<1>,
}

impl PodMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let plain = |name, help| registry.counter(Description::new(name, help), []);
        let starts =
            |name, help| registry.histogram(Description::new(name, help), [], Buckets::new(&START_BUCKETS)?);
        Ok(Self {
            started: plain("kubelet_started_pods_total", "Attempts to make a pod sandbox")?,
            started_errors: plain(
                "kubelet_started_pods_errors_total",
                "Attempts to make a pod sandbox that failed",
            )?,
            started_isolated: plain(
                "kubelet_started_user_namespaced_pods_total",
                "Attempts to make a pod sandbox with a user namespace of its own",
            )?,
            started_isolated_errors: plain(
                "kubelet_started_user_namespaced_pods_errors_total",
                "Attempts to make a sandbox, or to start a container, of a pod with a user namespace of its own that failed",
            )?,
            closed_gates: registry.counter(
                Description::new(
                    "wardlet_pods_without_isolation_total",
                    "Pods that ask for a user namespace and were started without, by the feature that is off",
                ),
                ["gate"],
            )?,
            start_seconds: starts(
                "kubelet_pod_start_duration_seconds",
                "Duration from a pod's first sight until it runs",
            )?,
            start_sli_seconds: starts(
                "kubelet_pod_start_sli_duration_seconds",
                "Duration from a pod's creation until all its containers run, without image pulls and init containers",
            )?,
            worker_start_seconds: registry.histogram(
                Description::new(
                    "kubelet_pod_worker_start_duration_seconds",
                    "Duration from a pod's first sight until its worker begins",
                ),
                [],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
            worker_seconds: registry.histogram(
                Description::new(
                    "kubelet_pod_worker_duration_seconds",
                    "Duration of a pass of a pod's worker: observing, deciding, publishing the status",
                ),
                ["operation_type"],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
        })
    }

    /// Counts an attempt to create a sandbox for a pod with these users.
    pub(crate) fn started<T, E>(&self, users: &UserNamespace, outcome: &Result<T, E>) {
        let is_isolated = *users != UserNamespace::Host;
        let counters = [Some(&self.started), is_isolated.then_some(&self.started_isolated)];
        counters.into_iter().flatten().for_each(|counter| counter.with([]).increment());
        if outcome.is_err() {
            let counters = [Some(&self.started_errors), is_isolated.then_some(&self.started_isolated_errors)];
            counters.into_iter().flatten().for_each(|counter| counter.with([]).increment());
        }
    }

    /// Counts an attempt to start a container that failed among those of pods with these users, as a kubelet does.
    pub(crate) fn container_failed(&self, users: &UserNamespace) {
        if *users != UserNamespace::Host {
            self.started_isolated_errors.with([]).increment();
        }
    }

    /// Counts a pod that asks for a user namespace and is started without, because this gate is closed.
    pub(crate) fn closed_gate(&self, gate: &str) {
        self.closed_gates.with([gate]).increment();
    }

    /// Records how long a pod took from when it was first seen until it runs.
    pub(crate) fn runs(&self, after: Duration) {
        self.start_seconds.with([]).observe_duration(after);
    }

    /// Records how long a pod took from its creation until all its containers run, without what is not the node's.
    pub(crate) fn started_within(&self, duration: Duration) {
        self.start_sli_seconds.with([]).observe_duration(duration);
    }

    /// Records how long a pod took from when it was first seen until its worker begins.
    pub(crate) fn worker_begins(&self, after: Duration) {
        self.worker_start_seconds.with([]).observe_duration(after);
    }

    /// Records a pass of a worker that has ended.
    pub(crate) fn worker_passed(&self, pass: Pass, begun: Instant) {
        self.worker_seconds.with([pass.label()]).observe_duration(begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_fails_is_counted_as_an_attempt_and_as_a_failure() {
        let registry = Registry::default();
        let metrics = PodMetrics::register(&registry).unwrap();
        metrics.started(&UserNamespace::Host, &Err::<(), ()>(()));
        metrics.container_failed(&UserNamespace::Host);
        let text = registry.text();
        for line in [
            "kubelet_started_pods_total 1\n",
            "kubelet_started_pods_errors_total 1\n",
            "kubelet_started_user_namespaced_pods_errors_total 0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn passes_are_told_apart_by_what_they_are_about() {
        let registry = Registry::default();
        let metrics = PodMetrics::register(&registry).unwrap();
        for pass in [Pass::Create, Pass::Update, Pass::Sync, Pass::Kill, Pass::Terminated, Pass::Sync] {
            metrics.worker_passed(pass, Instant::now());
        }
        let text = registry.text();
        for (label, count) in [("create", 1), ("update", 1), ("sync", 2), ("kill", 1), ("terminated", 1)] {
            let line =
                format!("kubelet_pod_worker_duration_seconds_count{{operation_type=\"{label}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
