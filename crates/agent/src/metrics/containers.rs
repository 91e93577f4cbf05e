//! Starts and ends of containers.

use telemetry::metrics::{CounterVec, Description, Error, Registry};
use types::reason;

/// The reasons of ends that have a label value of their own. Runtimes may report others.
const REASONS: [&str; 8] = [
    reason::COMPLETED,
    reason::ERROR,
    reason::OOM_KILLED,
    "ContainerCannotRun",
    "ContainerStatusUnknown",
    "DeadlineExceeded",
    "Evicted",
    "StartError",
];
/// The label of all other reasons, and of codes that no process ends with.
const OTHER: &str = "other";

/// The `container_type` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerType {
    /// A regular container.
    Container,
    /// An init container, sidecars included.
    Init,
    /// A container that was added to the running pod.
    Ephemeral,
}

impl ContainerType {
    fn label(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Init => "init_container",
            Self::Ephemeral => "ephemeral_container",
        }
    }
}

/// Counts starts and ends of containers.
#[derive(Debug, Clone)]
pub(crate) struct ContainerMetrics {
    started: CounterVec<1>,
    started_errors: CounterVec<2>,
    terminated: CounterVec<3>,
}

impl ContainerMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            started: registry.counter(
                Description::new("kubelet_started_containers_total", "Attempts to start a container"),
                ["container_type"],
            )?,
            started_errors: registry.counter(
                Description::new(
                    "kubelet_started_containers_errors_total",
                    "Attempts to start a container that failed, by reason",
                ),
                ["container_type", "code"],
            )?,
            terminated: registry.counter(
                Description::new(
                    "kubelet_terminated_containers_total",
                    "Ends of containers, those that restart included",
                ),
                ["container_type", "exit_code", "reason"],
            )?,
        })
    }

    /// Counts an attempt to start a container; `outcome` has the reason if it failed.
    pub(crate) fn started(&self, kind: ContainerType, outcome: Result<(), &str>) {
        self.started.with([kind.label()]).increment();
        if let Err(reason) = outcome {
            self.started_errors.with([kind.label(), reason]).increment();
        }
    }

    /// Counts the end of a container. Exit codes are those of processes, and reasons are few, so that the number of series
    /// has an end.
    pub(crate) fn terminated(&self, kind: ContainerType, code: i32, reason: &str) {
        let code = match code {
            // Runtimes say -1 or 255 of a process whose end they have lost.
            -1..=255 => code.to_string(),
            _ => OTHER.to_owned(),
        };
        let reason = REASONS.into_iter().find(|known| *known == reason).unwrap_or(OTHER);
        self.terminated.with([kind.label(), &code, reason]).increment();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_fails_is_counted_as_an_attempt_and_as_a_failure() {
        let registry = Registry::default();
        let metrics = ContainerMetrics::register(&registry).unwrap();
        metrics.started(ContainerType::Init, Ok(()));
        metrics.started(ContainerType::Init, Err("ErrImagePull"));
        let text = registry.text();
        for line in [
            "kubelet_started_containers_total{container_type=\"init_container\"} 2\n",
            "kubelet_started_containers_errors_total{container_type=\"init_container\",code=\"ErrImagePull\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn no_runtime_makes_label_values_without_end() {
        let registry = Registry::default();
        let metrics = ContainerMetrics::register(&registry).unwrap();
        metrics.terminated(ContainerType::Container, 137, "OOMKilled");
        for number in 1000..1100 {
            metrics.terminated(ContainerType::Ephemeral, number, &format!("Reason{number}"));
        }
        let text = registry.text();
        for line in [
            "kubelet_terminated_containers_total{container_type=\"container\",exit_code=\"137\",reason=\"OOMKilled\"} 1\n",
            "kubelet_terminated_containers_total{container_type=\"ephemeral_container\",exit_code=\"other\",reason=\"other\"} 100\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert_eq!(text.lines().filter(|line| line.contains("terminated_containers_total{")).count(), 2);
    }
}
