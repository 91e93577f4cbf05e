//! Metrics of pods and of admission.

use std::sync::Arc;

use telemetry::metrics::{CounterVec, Description, Error, Registry};

use super::resize_metrics::ResizeMetrics;
use super::working::WorkingPods;

/// The reasons that the kubelet's metric tells apart.
const REASONS: [&str; 17] = [
    "AppArmor",
    "Evicted",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeShutdown",
    "OutOfcpu",
    "OutOfephemeral-storage",
    "OutOfmemory",
    "OutOfpods",
    "PodFeatureUnsupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "SysctlForbidden",
    "SupplementalGroupsPolicyNotSupported",
    "TaintToleration",
    admission::kubelet::UNEXPECTED,
];

/// Counts pods, and what becomes of them before they run.
#[derive(Debug, Clone)]
pub struct Metrics {
    rejections: CounterVec<1>,
    preemptions: CounterVec<1>,
    refusals: CounterVec<2>,
    unknown_fields: CounterVec<0>,
    orphans: CounterVec<0>,
    /// The pods of this node.
    pub(super) pods: WorkingPods,
    pub(super) resizes: ResizeMetrics,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let pods = WorkingPods::default();
        registry.collector(Arc::new(pods.clone()))?;
        Ok(Self {
            pods,
            resizes: ResizeMetrics::register(registry)?,
            orphans: registry.counter(
                Description::new(
                    "kubelet_orphaned_runtime_pods_total",
                    "Pods of earlier processes in the runtime that no source had",
                ),
                [],
            )?,
            rejections: registry.counter(
                Description::new("kubelet_admission_rejections_total", "Pods that the node has rejected"),
                ["reason"],
            )?,
            preemptions: registry.counter(
                Description::new("kubelet_preemptions", "Pods that were ended for critical pods"),
                ["preemption_signal"],
            )?,
            refusals: registry.counter(
                Description::new(
                    "wardlet_pod_refusals_total",
                    "Attempts to start a pod that failed because this node cannot run it now",
                ),
                ["reason", "cause"],
            )?,
            unknown_fields: registry.counter(
                Description::new(
                    "wardlet_unknown_pod_fields_total",
                    "Fields of pods that were ignored because the agent does not know them",
                ),
                [],
            )?,
        })
    }

    pub(super) fn rejected(&self, reason: &str) {
        let label = match reason {
            known if REASONS.contains(&known) => known,
            other if other.starts_with("OutOf") => "OutOfExtendedResources",
            _ => "Other",
        };
        self.rejections.with([label]).increment();
    }

    pub(super) fn preempted(&self, signal: &str) {
        self.preemptions.with([signal]).increment();
    }

    pub(super) fn refused(&self, reason: &str, cause: &str) {
        self.refusals.with([reason, cause]).increment();
    }

    pub(super) fn orphaned(&self, count: u64) {
        self.orphans.with([]).add(count);
    }

    pub(super) fn unknown_fields(&self, count: usize) {
        self.unknown_fields.with([]).add(u64::try_from(count).unwrap_or(u64::MAX));
    }
}
