//! The agent's metrics, under the kubelet's names.

use std::time::{Duration, Instant};

use ids::UserNamespace;
use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, Registry};

/// Histogram buckets in seconds: from when a pod is first seen until it runs.
const POD_START_BUCKETS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

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

/// The agent's metrics.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    operations: CounterVec<1>,
    operation_errors: CounterVec<1>,
    operation_seconds: HistogramVec<1>,
    started_pods: CounterVec<0>,
    started_pods_errors: CounterVec<0>,
    started_user_namespaced_pods: CounterVec<0>,
    started_user_namespaced_pods_errors: CounterVec<0>,
    closed_gates: CounterVec<1>,
    started_containers: CounterVec<1>,
    started_containers_errors: CounterVec<2>,
    pod_start_seconds: HistogramVec<0>,
    credential_provider_errors: CounterVec<1>,
    credential_provider_seconds: HistogramVec<1>,
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        let counter = |name, help| registry.counter(Description::new(name, help), ["operation_type"]);
        let plain = |name, help| registry.counter(Description::new(name, help), []);
        Ok(Self {
            operations: counter("kubelet_runtime_operations_total", "Calls of the container runtime")?,
            operation_errors: counter(
                "kubelet_runtime_operations_errors_total",
                "Calls of the container runtime that failed",
            )?,
            operation_seconds: registry.histogram(
                Description::new(
                    "kubelet_runtime_operations_duration_seconds",
                    "Duration of calls of the container runtime",
                ),
                ["operation_type"],
                Buckets::exponential(0.005, 2.5, 14)?,
            )?,
            started_pods: plain("kubelet_started_pods_total", "Attempts to make a pod sandbox")?,
            started_pods_errors: plain(
                "kubelet_started_pods_errors_total",
                "Attempts to make a pod sandbox that failed",
            )?,
            started_user_namespaced_pods: plain(
                "kubelet_started_user_namespaced_pods_total",
                "Attempts to make a pod sandbox with a user namespace of its own",
            )?,
            started_user_namespaced_pods_errors: plain(
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
            started_containers: registry.counter(
                Description::new("kubelet_started_containers_total", "Attempts to start a container"),
                ["container_type"],
            )?,
            started_containers_errors: registry.counter(
                Description::new(
                    "kubelet_started_containers_errors_total",
                    "Attempts to start a container that failed, by reason",
                ),
                ["container_type", "code"],
            )?,
            credential_provider_errors: registry.counter(
                Description::new(
                    "kubelet_credential_provider_plugin_errors_total",
                    "Runs of a credential provider that failed",
                ),
                ["plugin_name"],
            )?,
            credential_provider_seconds: registry.histogram(
                Description::new(
                    "kubelet_credential_provider_plugin_duration",
                    "Duration of runs of a credential provider",
                ),
                ["plugin_name"],
                Buckets::new(&[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])?,
            )?,
            pod_start_seconds: registry.histogram(
                Description::new(
                    "kubelet_pod_start_duration_seconds",
                    "Duration from a pod's first sight until it runs",
                ),
                [],
                Buckets::new(&POD_START_BUCKETS)?,
            )?,
        })
    }

    /// Counts a CRI call that has returned.
    pub(crate) fn called<T, E>(&self, method: &str, begun: Instant, outcome: &Result<T, E>) {
        let labels = [operation_type(method)];
        self.operations.with(labels).increment();
        self.operation_seconds.with(labels).observe_duration(begun.elapsed());
        if outcome.is_err() {
            self.operation_errors.with(labels).increment();
        }
    }

    /// Counts an attempt to create a sandbox for a pod with these users.
    pub(crate) fn started_pod<T, E>(&self, users: &UserNamespace, outcome: &Result<T, E>) {
        let is_isolated = *users != UserNamespace::Host;
        let (of_isolated, errors) =
            (&self.started_user_namespaced_pods, &self.started_user_namespaced_pods_errors);
        let counters = [Some(&self.started_pods), is_isolated.then_some(of_isolated)];
        counters.into_iter().flatten().for_each(|counter| counter.with([]).increment());
        if outcome.is_err() {
            let counters = [Some(&self.started_pods_errors), is_isolated.then_some(errors)];
            counters.into_iter().flatten().for_each(|counter| counter.with([]).increment());
        }
    }

    /// Counts a pod that asks for a user namespace and is started without, because this gate is closed.
    pub(crate) fn closed_gate(&self, gate: &str) {
        self.closed_gates.with([gate]).increment();
    }

    /// Counts an attempt to start a container of a pod with these users; `outcome` has the reason if it failed.
    pub(crate) fn started_container(
        &self,
        users: &UserNamespace,
        kind: ContainerType,
        outcome: Result<(), &str>,
    ) {
        self.started_containers.with([kind.label()]).increment();
        if let Err(reason) = outcome {
            self.started_containers_errors.with([kind.label(), reason]).increment();
            // As a kubelet counts.
            if *users != UserNamespace::Host {
                self.started_user_namespaced_pods_errors.with([]).increment();
            }
        }
    }

    /// Counts a run of a credential provider.
    pub(crate) fn asked_credential_provider(&self, name: &str, begun: Instant, is_answered: bool) {
        self.credential_provider_seconds.with([name]).observe_duration(begun.elapsed());
        if !is_answered {
            self.credential_provider_errors.with([name]).increment();
        }
    }

    /// Records how long a pod took from when it was first seen until it runs.
    pub(crate) fn pod_runs(&self, after: Duration) {
        self.pod_start_seconds.with([]).observe_duration(after);
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
    fn an_attempt_that_fails_is_counted_as_an_attempt_and_as_a_failure() {
        let registry = Registry::default();
        let metrics = Metrics::register(&registry).unwrap();
        metrics.started_container(&UserNamespace::Host, ContainerType::Init, Ok(()));
        metrics.started_container(&UserNamespace::Host, ContainerType::Init, Err("ErrImagePull"));
        metrics.started_pod(&UserNamespace::Host, &Err::<(), ()>(()));
        let text = registry.text();
        for line in [
            "kubelet_started_containers_total{container_type=\"init_container\"} 2\n",
            "kubelet_started_containers_errors_total{container_type=\"init_container\",code=\"ErrImagePull\"} 1\n",
            "kubelet_started_pods_total 1\n",
            "kubelet_started_pods_errors_total 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn a_call_is_counted_under_the_name_that_a_kubelet_has_for_it() {
        let registry = Registry::default();
        let metrics = Metrics::register(&registry).unwrap();
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
    fn two_agents_need_two_registries() {
        let registry = Registry::default();
        Metrics::register(&registry).unwrap();
        assert!(matches!(Metrics::register(&registry), Err(Error::Duplicate { .. })));
    }
}
