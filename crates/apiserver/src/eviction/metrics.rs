//! Metrics of eviction.

use std::time::Duration;

use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, Registry};

/// Counts evictions.
#[derive(Debug, Clone)]
pub(crate) struct EvictionMetrics {
    evictions: CounterVec<1>,
    stats_age: HistogramVec<1>,
}

impl EvictionMetrics {
    /// # Errors
    /// If the registry has one of the names already.
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            evictions: registry.counter(
                Description::new("kubelet_evictions", "Pods that the node has evicted"),
                ["eviction_signal"],
            )?,
            stats_age: registry.histogram(
                Description::new(
                    "kubelet_eviction_stats_age_seconds",
                    "Time from the observation of a threshold until a pod is evicted for it",
                ),
                ["eviction_signal"],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
        })
    }

    /// A pod was evicted for this signal.
    pub(super) fn evicted(&self, signal: &str) {
        self.evictions.with([signal]).increment();
    }

    /// Pods are ranked for this signal so long after it was observed.
    pub(super) fn ranked(&self, signal: &str, after: Duration) {
        self.stats_age.with([signal]).observe_duration(after);
    }
}
