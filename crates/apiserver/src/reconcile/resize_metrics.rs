//! Metrics of resizes that wait, and of what becomes of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admission::kubelet;
use agent::PodAllocation;
use manifest::k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use telemetry::metrics::{Buckets, CounterVec, Description, Error, GaugeVec, HistogramVec, Registry, to_f64};

/// Histogram buckets in seconds.
const SECONDS: [f64; 16] = [
    5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 150.0, 180.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0,
];

/// Why resizes that wait are judged: the `retry_trigger` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// A pod asks for something else.
    PodUpdated,
    /// Pods were found that an earlier process has started.
    PodsAdded,
    /// A pod is gone.
    PodsRemoved,
    /// A pod has ended.
    PodTerminated,
    /// Time has passed.
    Periodic,
}

impl Trigger {
    fn label(self) -> &'static str {
        match self {
            Self::PodUpdated => "pod_updated",
            Self::PodsAdded => "pods_added",
            Self::PodsRemoved => "pods_removed",
            Self::PodTerminated => "pod_terminated",
            Self::Periodic => "periodic_retry",
        }
    }
}

/// What became of a resize that waited: the `resolution` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The pod was given what it asked for.
    Accepted,
    /// The pod does not ask for it any more.
    Reverted,
    /// The pod is over.
    Terminated,
}

impl Resolution {
    fn label(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Reverted => "reverted",
            Self::Terminated => "terminated",
        }
    }
}

/// Reason and priority of resizes that wait, as labels.
type Waiting = (String, &'static str);

/// Counts resizes.
#[derive(Debug, Clone)]
pub(super) struct ResizeMetrics {
    requested: CounterVec<3>,
    pending: GaugeVec<2>,
    infeasible: CounterVec<1>,
    accepted: CounterVec<1>,
    seconds: HistogramVec<2>,
    admitted: CounterVec<2>,
    /// What the gauge has.
    shown: Arc<Mutex<BTreeMap<Waiting, u64>>>,
}

impl ResizeMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            requested: registry.counter(
                Description::new(
                    "kubelet_container_requested_resizes_total",
                    "Resizes that were asked for, by resource of each container",
                ),
                ["resource", "requirement", "operation"],
            )?,
            pending: registry.gauge(
                Description::new(
                    "kubelet_pod_pending_resizes",
                    "Pods that ask for other resources than they were given",
                ),
                ["reason", "priority_bucket"],
            )?,
            infeasible: registry.counter(
                Description::new(
                    "kubelet_pod_infeasible_resizes_total",
                    "Resizes that were asked for and that this node can never do",
                ),
                ["reason_detail"],
            )?,
            accepted: registry.counter(
                Description::new(
                    "kubelet_pod_deferred_accepted_resizes_total",
                    "Resizes that were admitted after they had waited",
                ),
                ["retry_trigger"],
            )?,
            seconds: registry.histogram(
                Description::new(
                    "kubelet_pod_deferred_resize_duration_seconds",
                    "Time for which resizes were deferred, by what became of them",
                ),
                ["resolution", "priority_bucket"],
                Buckets::new(&SECONDS)?,
            )?,
            admitted: registry.counter(
                Description::new(
                    "kubelet_pod_level_resources_admission_total",
                    "Pods that were admitted, by where they ask for resources",
                ),
                ["config_mode", "qos_class"],
            )?,
            shown: Arc::default(),
        })
    }

    /// A new pod was admitted.
    pub(super) fn admitted(&self, spec: &PodSpec) {
        let asks = |found: Option<&ResourceRequirements>| {
            found.is_some_and(|found| found.requests.iter().chain(&found.limits).flatten().next().is_some())
        };
        let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let by_container = containers.any(|container| asks(container.resources.as_ref()));
        let mode = match (asks(spec.resources.as_ref()), by_container) {
            (true, true) => "pod_and_container_level",
            (true, false) => "pod_level",
            (false, true) => "container_level",
            (false, false) => "",
        };
        let class = match kubelet::qos_rank(spec) {
            0 => "besteffort",
            1 => "burstable",
            _ => "guaranteed",
        };
        self.admitted.with([mode, class]).increment();
    }

    pub(super) fn requested(&self, before: &PodAllocation, after: &PodSpec) {
        for change in before.changes_to(after) {
            self.requested.with([change.resource, change.requirement, change.operation]).increment();
        }
    }

    pub(super) fn infeasible(&self, detail: &str) {
        self.infeasible.with([detail]).increment();
    }

    pub(super) fn accepted(&self, trigger: Trigger) {
        self.accepted.with([trigger.label()]).increment();
    }

    pub(super) fn resolved(&self, resolution: Resolution, priority: i32, waited: Duration) {
        self.seconds.with([resolution.label(), bucket(priority)]).observe_duration(waited);
    }

    /// Sets how many wait, by reason and priority of each.
    pub(super) fn pending<'a>(&self, all: impl Iterator<Item = (&'a str, i32)>) {
        let mut counts: BTreeMap<Waiting, u64> = BTreeMap::new();
        for (reason, priority) in all {
            *counts.entry((reason.to_lowercase(), bucket(priority))).or_default() += 1;
        }
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if *shown == counts {
            return;
        }
        for (reason, bucket) in shown.keys().filter(|labels| !counts.contains_key(*labels)) {
            self.pending.remove([reason, bucket]);
        }
        for ((reason, bucket), count) in &counts {
            self.pending.with([reason, bucket]).set(to_f64(*count));
        }
        *shown = counts;
    }
}

/// The `priority_bucket` label.
fn bucket(priority: i32) -> &'static str {
    match priority {
        2_000_000_000.. => "system-critical",
        100_000.. => "high",
        1.. => "medium",
        0 => "normal",
        -999.. => "low",
        _ => "very-low",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resizes_are_counted_while_they_wait_and_when_they_are_over() {
        let registry = Registry::default();
        let metrics = ResizeMetrics::register(&registry).unwrap();
        metrics.pending([("Deferred", 0), ("Deferred", 0), ("Infeasible", 2_000_000_000)].into_iter());
        let text = registry.text();
        for line in [
            "kubelet_pod_pending_resizes{reason=\"deferred\",priority_bucket=\"normal\"} 2\n",
            "kubelet_pod_pending_resizes{reason=\"infeasible\",priority_bucket=\"system-critical\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        metrics.pending(std::iter::empty());
        metrics.resolved(Resolution::Accepted, -5, Duration::from_secs(7));
        metrics.accepted(Trigger::PodTerminated);
        let text = registry.text();
        assert!(!text.contains("kubelet_pod_pending_resizes{"), "{text}");
        assert!(text.contains("resolution=\"accepted\",priority_bucket=\"low\"} 1\n"), "{text}");
        assert!(text.contains("retry_trigger=\"pod_terminated\"} 1\n"), "{text}");
    }

    #[test]
    fn admitted_pods_are_counted_by_where_they_ask_for_resources() {
        let registry = Registry::default();
        let metrics = ResizeMetrics::register(&registry).unwrap();
        let some = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        for (pod, container) in [(json!(null), json!({})), (some.clone(), json!({})), (some.clone(), some)] {
            let spec = json!({"resources": pod, "containers": [{"name": "a", "resources": container}]});
            metrics.admitted(&serde_json::from_value(spec).unwrap());
        }
        let text = registry.text();
        for labels in [
            "config_mode=\"\",qos_class=\"besteffort\"",
            "config_mode=\"pod_level\",qos_class=\"guaranteed\"",
            "config_mode=\"pod_and_container_level\",qos_class=\"guaranteed\"",
        ] {
            let line = format!("kubelet_pod_level_resources_admission_total{{{labels}}} 1\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }

    #[test]
    fn each_change_of_a_container_is_counted() {
        let registry = Registry::default();
        let metrics = ResizeMetrics::register(&registry).unwrap();
        let spec = |requests: serde_json::Value, limits: serde_json::Value| -> PodSpec {
            let resources = json!({"requests": requests, "limits": limits});
            serde_json::from_value(json!({"containers": [{"name": "a", "resources": resources}]})).unwrap()
        };
        let before = PodAllocation::of(&spec(json!({"cpu": "1", "memory": "2Gi"}), json!({})));
        metrics.requested(&before, &spec(json!({"cpu": "2", "memory": "1Gi"}), json!({"cpu": "4"})));
        let text = registry.text();
        for labels in [
            "resource=\"cpu\",requirement=\"requests\",operation=\"increase\"",
            "resource=\"memory\",requirement=\"requests\",operation=\"decrease\"",
            "resource=\"cpu\",requirement=\"limits\",operation=\"add\"",
        ] {
            let line = format!("kubelet_container_requested_resizes_total{{{labels}}} 1\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
