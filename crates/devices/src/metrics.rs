//! Metrics of devices, under the kubelet's names.

use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, Registry};

/// Counts registrations of plugins and requests for resources of pods, and times allocations.
#[derive(Debug, Clone)]
pub(crate) struct DeviceMetrics {
    /// By resource.
    pub(crate) registrations: CounterVec<1>,
    /// By resource.
    pub(crate) allocations: HistogramVec<1>,
    /// By version of the PodResources API.
    pub(crate) requests: CounterVec<1>,
    pub(crate) lists: CounterVec<1>,
    pub(crate) gets: CounterVec<1>,
    pub(crate) failed_gets: CounterVec<1>,
    pub(crate) allocatables: CounterVec<1>,
}

const VERSION: [&str; 1] = ["server_api_version"];

impl DeviceMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        let counter = |name, help| registry.counter(Description::new(name, help), VERSION);
        Ok(Self {
            registrations: registry.counter(
                Description::new(
                    "kubelet_device_plugin_registration_total",
                    "Registrations of device plugins, by resource",
                ),
                ["resource_name"],
            )?,
            allocations: registry.histogram(
                Description::new(
                    "kubelet_device_plugin_alloc_duration_seconds",
                    "Duration of allocations by device plugins, by resource",
                ),
                ["resource_name"],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
            requests: counter(
                "kubelet_pod_resources_endpoint_requests_total",
                "Requests to the PodResources API, by its version",
            )?,
            lists: counter(
                "kubelet_pod_resources_endpoint_requests_list",
                "List requests to the PodResources API, by its version",
            )?,
            gets: counter(
                "kubelet_pod_resources_endpoint_requests_get",
                "Get requests to the PodResources API, by its version",
            )?,
            failed_gets: counter(
                "kubelet_pod_resources_endpoint_errors_get",
                "Get requests to the PodResources API for pods that are not there, by its version",
            )?,
            allocatables: counter(
                "kubelet_pod_resources_endpoint_requests_get_allocatable",
                "GetAllocatableResources requests to the PodResources API, by its version",
            )?,
        })
    }
}
