//! What pods ask for.

use std::collections::BTreeMap;

/// A pod with what its containers ask for, init containers first, as in its spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRequest {
    /// Its UID.
    pub uid: String,
    /// Its init containers, then its regular ones.
    pub containers: Vec<ContainerRequest>,
}

/// A container with the number of devices that it asks for, by resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// Its name.
    pub name: String,
    /// How long it has its devices.
    pub lifetime: Lifetime,
    /// The number of devices by resource. Resources of which no plugin is known are none of ours: they are ignored.
    pub resources: BTreeMap<String, u64>,
}

/// How long a container has its devices for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// It ends before the containers after it begin, which may have its devices then.
    Init,
    /// As long as the pod.
    Pod,
}

impl PodRequest {
    /// Its container of this name.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&ContainerRequest> {
        self.containers.iter().find(|container| container.name == name)
    }
}
