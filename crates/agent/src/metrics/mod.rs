//! The agent's metrics, under the kubelet's names.
//!
//! | where | what it counts |
//! |---|---|
//! | `runtime` | calls of the container runtime |
//! | `pods` | starts of pods, passes of their workers |
//! | `containers` | starts and ends of containers |
//! | `images` | image pulls, credential providers, images that were removed |
//! | `observed` | what the workers have last observed in the runtime |
//! | `resizes` | resizes of pods in place |
//! | `volumes` | volumes, their set-up and tear-down |
//! | `cgroups` | operations on cgroups; part of [`crate::PodCgroups`] |
//! | `probes` | runs of probes, in a registry of their own |
//!
//! Label values come from the agent, the node's configuration and the runtime, never freely from a pod; but those of `probes`
//! name pods and containers, as long as the pod is there.

pub(crate) mod cgroups;
pub(crate) mod containers;
pub(crate) mod images;
pub(crate) mod observed;
pub(crate) mod pods;
pub(crate) mod probes;
pub(crate) mod resizes;
pub(crate) mod runtime;
pub(crate) mod volumes;

use telemetry::metrics::{Error, Registry};

/// The metrics of all pods.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) runtime: runtime::RuntimeMetrics,
    pub(crate) pods: pods::PodMetrics,
    pub(crate) containers: containers::ContainerMetrics,
    pub(crate) images: images::ImageMetrics,
    pub(crate) observed: observed::ObservedPods,
    pub(crate) resizes: resizes::ResizeMetrics,
    pub(crate) volumes: volumes::VolumeMetrics,
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            runtime: runtime::RuntimeMetrics::register(registry)?,
            pods: pods::PodMetrics::register(registry)?,
            containers: containers::ContainerMetrics::register(registry)?,
            images: images::ImageMetrics::register(registry)?,
            observed: observed::ObservedPods::register(registry)?,
            resizes: resizes::ResizeMetrics::register(registry)?,
            volumes: volumes::VolumeMetrics::register(registry)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_agents_need_two_registries() {
        let registry = Registry::default();
        Metrics::register(&registry).unwrap();
        assert!(matches!(Metrics::register(&registry), Err(Error::Duplicate { .. })));
    }
}
