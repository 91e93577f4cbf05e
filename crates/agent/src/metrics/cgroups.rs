//! Operations on cgroups.

use std::time::Instant;

use cgroups::Version;
use telemetry::metrics::{Buckets, Description, Error, GaugeVec, HistogramVec, Registry};

/// The `operation_type` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CgroupOperation {
    /// The cgroup of a pod is made and limited.
    Create,
    /// Limits are set again.
    Update,
    /// The cgroup of a pod is emptied and removed.
    Destroy,
}

impl CgroupOperation {
    fn label(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Destroy => "destroy",
        }
    }
}

/// Times operations on cgroups.
#[derive(Debug)]
pub(crate) struct CgroupMetrics {
    version: GaugeVec<0>,
    seconds: HistogramVec<1>,
}

impl CgroupMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            version: registry.gauge(
                Description::new(
                    "kubelet_cgroup_version",
                    "The version of cgroups that pods are limited with",
                ),
                [],
            )?,
            seconds: registry.histogram(
                Description::new(
                    "kubelet_cgroup_manager_duration_seconds",
                    "Duration of operations on the cgroups of pods",
                ),
                ["operation_type"],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
        })
    }

    /// Sets the version. Hosts with both are of version 1, as for a kubelet: their controllers are there.
    pub(crate) fn set_version(&self, version: Version) {
        self.version.with([]).set(if version == Version::V2 { 2.0 } else { 1.0 });
    }

    /// Times an operation, whatever its outcome.
    pub(crate) fn timed<T>(&self, operation: CgroupOperation, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.seconds.with([operation.label()]).observe_duration(begun.elapsed());
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_timed_by_their_kind() {
        let registry = Registry::default();
        let metrics = CgroupMetrics::register(&registry).unwrap();
        metrics.set_version(Version::V2);
        assert_eq!(metrics.timed(CgroupOperation::Create, || 7), 7);
        metrics.timed(CgroupOperation::Update, || ());
        metrics.timed(CgroupOperation::Destroy, || ());
        let text = registry.text();
        assert!(text.contains("kubelet_cgroup_version 2\n"), "{text}");
        for label in ["create", "update", "destroy"] {
            let line =
                format!("kubelet_cgroup_manager_duration_seconds_count{{operation_type=\"{label}\"}} 1\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
