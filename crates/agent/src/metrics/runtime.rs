//! Calls of the container runtime.

use std::time::Instant;

use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, Registry};

/// Counts calls of the runtime.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeMetrics {
    operations: CounterVec<1>,
    errors: CounterVec<1>,
    seconds: HistogramVec<1>,
    sandbox_errors: CounterVec<1>,
    sandbox_seconds: HistogramVec<1>,
}

impl RuntimeMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let counter = |name, help, label| registry.counter(Description::new(name, help), [label]);
        Ok(Self {
            operations: counter(
                "kubelet_runtime_operations_total",
                "Calls of the container runtime",
                "operation_type",
            )?,
            errors: counter(
                "kubelet_runtime_operations_errors_total",
                "Calls of the container runtime that failed",
                "operation_type",
            )?,
            seconds: registry.histogram(
                Description::new(
                    "kubelet_runtime_operations_duration_seconds",
                    "Duration of calls of the container runtime",
                ),
                ["operation_type"],
                Buckets::exponential(0.005, 2.5, 14)?,
            )?,
            sandbox_errors: counter(
                "kubelet_run_podsandbox_errors_total",
                "Calls that create a pod sandbox and failed, by runtime handler",
                "runtime_handler",
            )?,
            sandbox_seconds: registry.histogram(
                Description::new(
                    "kubelet_run_podsandbox_duration_seconds",
                    "Duration of calls that create a pod sandbox, by runtime handler",
                ),
                ["runtime_handler"],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
        })
    }

    /// Counts a CRI call that has returned.
    pub(crate) fn called<T, E>(&self, method: &str, begun: Instant, outcome: &Result<T, E>) {
        let labels = [operation_type(method)];
        self.operations.with(labels).increment();
        self.seconds.with(labels).observe_duration(begun.elapsed());
        if outcome.is_err() {
            self.errors.with(labels).increment();
        }
    }

    /// Counts a call that creates a sandbox with this handler: that of a RuntimeClass, which only administrators make.
    pub(crate) fn ran_sandbox<T, E>(&self, handler: &str, begun: Instant, outcome: &Result<T, E>) {
        self.sandbox_seconds.with([handler]).observe_duration(begun.elapsed());
        if outcome.is_err() {
            self.sandbox_errors.with([handler]).increment();
        }
    }
}

/// The kubelet's `operation_type` label for a CRI method.
fn operation_type(method: &str) -> &str {
    match method {
        "RunPodSandbox" => "run_podsandbox",
        "StopPodSandbox" => "stop_podsandbox",
        "RemovePodSandbox" => "remove_podsandbox",
        "PodSandboxStatus" => "podsandbox_status",
        "ListPodSandbox" => "list_podsandbox",
        "CreateContainer" => "create_container",
        "StartContainer" => "start_container",
        "StopContainer" => "stop_container",
        "RemoveContainer" => "remove_container",
        "ContainerStatus" => "container_status",
        "ListContainers" => "list_containers",
        "ReopenContainerLog" => "reopen_container_log",
        "UpdateContainerResources" => "update_container",
        "UpdatePodSandboxResources" => "update_podsandbox_resources",
        "ExecSync" => "exec_sync",
        "ImageStatus" => "image_status",
        "PullImage" => "pull_image",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_under_the_name_that_a_kubelet_has_for_it() {
        let registry = Registry::default();
        let metrics = RuntimeMetrics::register(&registry).unwrap();
        metrics.called("RunPodSandbox", Instant::now(), &Ok::<(), ()>(()));
        let text = registry.text();
        assert!(
            text.contains("kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 1\n"),
            "{text}"
        );
        assert!(text.contains("duration_seconds_count{operation_type=\"run_podsandbox\"} 1\n"), "{text}");
        assert!(!text.contains("errors_total"), "{text}");
    }

    #[test]
    fn a_sandbox_that_cannot_be_made_is_counted_by_its_handler() {
        let registry = Registry::default();
        let metrics = RuntimeMetrics::register(&registry).unwrap();
        metrics.ran_sandbox("", Instant::now(), &Ok::<(), ()>(()));
        metrics.ran_sandbox("kata", Instant::now(), &Err::<(), ()>(()));
        let text = registry.text();
        for line in [
            "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"\"} 1\n",
            "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"kata\"} 1\n",
            "kubelet_run_podsandbox_errors_total{runtime_handler=\"kata\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("errors_total{runtime_handler=\"\"}"), "{text}");
    }
}
