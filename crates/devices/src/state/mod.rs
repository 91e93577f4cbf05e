//! The resources of a node, their plugins, and which container has which device. Pure: times are given, and a plugin is
//! whatever the caller calls it by.

mod allocations;
mod choice;
mod resource;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use tokio::time::Instant;

use crate::error::AllocateError;

pub(crate) use allocations::{Allocation, Allocations, DevicesPerNuma, Held, NO_NUMA};
pub(crate) use choice::{Candidates, Reservation, Wanted};
pub(crate) use resource::{Device, Devices, Resource, bytes_of};
pub use resource::{DeviceCount, Health};

/// The most resources: each plugin that registers may bring one.
const MOST_RESOURCES: usize = 1024;
/// The most plugins of one resource at the same time.
const MOST_PLUGINS: usize = 16;
/// The most devices of one plugin.
const MOST_DEVICES: usize = 100_000;
/// The most bytes that the IDs of the devices of all plugins have: written as JSON they are much smaller than the largest
/// checkpoint.
const MOST_BYTES: usize = 16 << 20;

/// A device that a container has, or that can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllocatedDevice {
    /// Its resource.
    pub resource: String,
    /// Its ID.
    pub id: String,
    /// Whether it can be used.
    pub health: Health,
    /// The NUMA nodes that it is near to; none if its plugin does not say.
    pub numa: Vec<i64>,
}

/// The devices of a node.
#[derive(Debug)]
pub(crate) struct State<P> {
    resources: BTreeMap<String, Resource<P>>,
    /// Resources that this process has forgotten: the Node shows none of them.
    removed: BTreeSet<String>,
    allocations: Allocations,
    /// Devices that were chosen for a container while their plugin is asked for them, by resource.
    reserved: BTreeMap<String, BTreeSet<String>>,
}

impl<P: Clone> State<P> {
    /// What an earlier process has recorded.
    pub(crate) fn recorded(resources: Vec<String>, allocations: Allocations, now: Instant) -> Self {
        let resources = resources.into_iter().map(|name| (name, Resource::recorded(now)));
        Self {
            resources: resources.collect(),
            removed: BTreeSet::new(),
            allocations,
            reserved: BTreeMap::new(),
        }
    }

    /// A plugin is connected. `Err` says why it cannot be used.
    pub(crate) fn connect(&mut self, name: &str, socket: &Path, plugin: P) -> Result<(), String> {
        if !self.resources.contains_key(name) && self.resources.len() >= MOST_RESOURCES {
            return Err(format!(
                "the node has {MOST_RESOURCES} resources of device plugins, and takes no more"
            ));
        }
        let resource = self.resources.entry(name.to_owned()).or_insert_with(Resource::new);
        if resource.plugins() >= MOST_PLUGINS {
            return Err(format!("{name} has {MOST_PLUGINS} plugins, and takes no more"));
        }
        self.removed.remove(name);
        resource.connect(socket, plugin);
        Ok(())
    }

    /// Whether there is room for a list of devices of a plugin. `Err` says why not.
    pub(crate) fn check_list(&self, name: &str, socket: &Path, devices: &Devices) -> Result<(), String> {
        if devices.len() > MOST_DEVICES {
            return Err(format!(
                "the plugin of {name} lists {} devices, and a plugin can have {MOST_DEVICES}",
                devices.len()
            ));
        }
        let others = self.resources.iter().map(|(of, resource)| {
            let replaced = Some(socket).filter(|_| of == name);
            resource.bytes_beside(replaced)
        });
        let bytes = others.fold(bytes_of(devices), usize::saturating_add);
        if bytes > MOST_BYTES {
            return Err(format!(
                "with those of {name}, the IDs of all devices have {bytes} bytes, and can have {MOST_BYTES}"
            ));
        }
        Ok(())
    }

    /// The complete list of devices of a plugin.
    pub(crate) fn list(&mut self, name: &str, socket: &Path, devices: Devices) {
        if let Some(resource) = self.resources.get_mut(name) {
            resource.list(socket, devices);
        }
    }

    /// A plugin is gone.
    pub(crate) fn disconnect(&mut self, name: &str, socket: &Path, now: Instant) {
        if let Some(resource) = self.resources.get_mut(name) {
            resource.disconnect(socket, now);
        }
    }

    /// Forgets the resources whose plugins are gone for long. Returns whether there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let is_expired = |(_, resource): &(&String, &Resource<P>)| resource.is_expired(now);
        let expired: Vec<String> =
            self.resources.iter().filter(is_expired).map(|(name, _)| name.clone()).collect();
        self.resources.retain(|name, _| !expired.contains(name));
        let is_one = !expired.is_empty();
        // A node shows few resources, and forgets the oldest names for nothing but memory.
        self.removed.extend(expired);
        while self.removed.len() > MOST_RESOURCES {
            self.removed.pop_first();
        }
        is_one
    }

    /// How many devices each resource has; none of those that were forgotten.
    pub(crate) fn counts(&self) -> BTreeMap<String, DeviceCount> {
        let removed = self.removed.iter().map(|name| (name.clone(), DeviceCount::default()));
        removed.chain(self.resources.iter().map(|(name, of)| (name.clone(), of.count()))).collect()
    }

    /// Whether a resource is one of a device plugin, now or when a container got some of it.
    pub(crate) fn is_known(&self, resource: &str) -> bool {
        self.resources.contains_key(resource) || self.allocations.all().any(|held| held.resource == resource)
    }

    /// The plugin of a resource, or the last one if it is gone.
    pub(crate) fn latest_plugin(&self, resource: &str) -> Option<P> {
        self.resources.get(resource).and_then(Resource::latest_plugin)
    }

    pub(crate) fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    /// Keeps the devices of these pods alone. Returns whether others had some.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&str) -> bool) -> bool {
        self.allocations.retain(keeps)
    }

    /// The resources, each with the devices that can be used, for the checkpoint.
    pub(crate) fn registered(&self) -> BTreeMap<String, Vec<String>> {
        let of = |resource: &Resource<P>| resource.healthy().map(|(id, _)| id.to_owned()).collect();
        self.resources.iter().map(|(name, resource)| (name.clone(), of(resource))).collect()
    }

    /// The devices that a container has.
    pub(crate) fn devices_of(&self, pod: &str, container: &str) -> Vec<AllocatedDevice> {
        let all = self.allocations.of(pod, container).into_iter().flatten();
        all.flat_map(|(name, allocation)| {
            let resource = self.resources.get(name);
            let device = move |id: &str| AllocatedDevice {
                resource: name.clone(),
                id: id.to_owned(),
                // As a kubelet has it: of a device that nothing is known of, nothing bad is known.
                health: match resource {
                    Some(of) if of.device(id).is_some() && !of.is_healthy(id) => Health::Unhealthy,
                    _ => Health::Healthy,
                },
                numa: numa_of(allocation, id),
            };
            allocation.ids().into_iter().map(device).collect::<Vec<_>>()
        })
        .collect()
    }

    /// The devices that can be used, whether a container has them or not.
    pub(crate) fn allocatable(&self) -> Vec<AllocatedDevice> {
        let of = |(name, resource): (&String, &Resource<P>)| {
            let device = |(id, device): (&str, &Device)| AllocatedDevice {
                resource: name.clone(),
                id: id.to_owned(),
                health: Health::Healthy,
                numa: device.numa.clone(),
            };
            resource.healthy().map(device).collect::<Vec<_>>()
        };
        self.resources.iter().flat_map(of).collect()
    }

    /// Checks, before a container is started, that it can use the devices that an earlier process has allocated.
    pub(crate) fn confirm(&mut self, wanted: &Wanted<'_>) -> Result<(), AllocateError> {
        let name = wanted.resource.to_owned();
        let Some(allocation) = self.allocations.get_mut(&wanted.pod.uid, wanted.container, &name) else {
            return Ok(());
        };
        if allocation.is_confirmed {
            return Ok(());
        }
        let resource = self.resources.get(&name).filter(|resource| resource.is_registered());
        let Some(resource) = resource else { return Err(AllocateError::NotYet { resource: name }) };
        if !allocation.ids().iter().all(|id| resource.is_healthy(id)) {
            return Err(AllocateError::Unhealthy { resource: name });
        }
        allocation.is_confirmed = true;
        Ok(())
    }
}

/// The NUMA nodes of a device of an allocation.
fn numa_of(allocation: &Allocation, id: &str) -> Vec<i64> {
    let near = allocation.devices.iter().filter(|(_, ids)| ids.iter().any(|one| one == id));
    near.map(|(node, _)| *node).filter(|node| *node != NO_NUMA).collect()
}

#[cfg(test)]
mod tests;
