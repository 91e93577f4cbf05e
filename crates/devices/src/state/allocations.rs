//! Which container has which devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::v1beta1::ContainerAllocateResponse;

/// Device IDs by NUMA node; a device that is near to several nodes is under each.
pub(crate) type DevicesPerNuma = BTreeMap<i64, Vec<String>>;

/// The node of devices whose plugin does not say where they are.
pub(crate) const NO_NUMA: i64 = -1;

/// The devices of one resource that a container has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Allocation {
    pub(crate) devices: DevicesPerNuma,
    /// What the plugin answered when they were allocated.
    pub(crate) response: ContainerAllocateResponse,
    /// Whether this process knows that the devices can be used. Those of an earlier process may be gone: the machine may have
    /// been started anew.
    pub(crate) is_confirmed: bool,
}

impl Allocation {
    /// The IDs of its devices.
    pub(crate) fn ids(&self) -> BTreeSet<&str> {
        self.devices.values().flatten().map(String::as_str).collect()
    }
}

/// The allocations of one container, by resource.
pub(crate) type OfContainer = BTreeMap<String, Allocation>;

/// All allocations of the node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Allocations {
    /// By the pod's UID, then by container.
    pods: BTreeMap<String, BTreeMap<String, OfContainer>>,
}

/// One allocation with what it is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) allocation: &'a Allocation,
}

impl Allocations {
    pub(crate) fn of(&self, pod: &str, container: &str) -> Option<&OfContainer> {
        self.pods.get(pod)?.get(container)
    }

    pub(crate) fn get(&self, pod: &str, container: &str, resource: &str) -> Option<&Allocation> {
        self.of(pod, container)?.get(resource)
    }

    pub(crate) fn get_mut(&mut self, pod: &str, container: &str, resource: &str) -> Option<&mut Allocation> {
        self.pods.get_mut(pod)?.get_mut(container)?.get_mut(resource)
    }

    pub(crate) fn insert(&mut self, pod: &str, container: &str, resource: &str, allocation: Allocation) {
        let of_pod = self.pods.entry(pod.to_owned()).or_default();
        of_pod.entry(container.to_owned()).or_default().insert(resource.to_owned(), allocation);
    }

    pub(crate) fn remove(&mut self, pod: &str, container: &str, resource: &str) {
        let Some(containers) = self.pods.get_mut(pod) else { return };
        if let Some(resources) = containers.get_mut(container) {
            resources.remove(resource);
        }
        containers.retain(|_, resources| !resources.is_empty());
        if containers.is_empty() {
            self.pods.remove(pod);
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Held<'_>> {
        self.pods.iter().flat_map(|(pod, containers)| {
            containers.iter().flat_map(move |(container, resources)| {
                resources.iter().map(move |(resource, allocation)| Held {
                    pod,
                    container,
                    resource,
                    allocation,
                })
            })
        })
    }

    /// The devices of a resource that any container has.
    pub(crate) fn in_use(&self, resource: &str) -> BTreeSet<&str> {
        self.all().filter(|held| held.resource == resource).flat_map(|held| held.allocation.ids()).collect()
    }

    pub(crate) fn has_pod(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    /// The UIDs of the pods that have devices.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Keeps the devices of these pods alone. Returns whether others had some.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&str) -> bool) -> bool {
        let before = self.pods.len();
        self.pods.retain(|pod, _| keeps(pod));
        self.pods.len() != before
    }
}
