//! Which devices a container gets.

use std::collections::BTreeSet;

use super::{Allocation, DevicesPerNuma, NO_NUMA, Resource, State};
use crate::api::v1beta1::ContainerAllocateResponse;
use crate::error::AllocateError;
use crate::request::{Lifetime, PodRequest};

/// One resource that a container of a pod asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) pod: &'a PodRequest,
    pub(crate) container: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) count: u64,
}

/// The devices among which the container's are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidates<P> {
    /// The plugin of the resource.
    pub(crate) plugin: P,
    /// Those of init containers of the pod, which have ended by then. The container gets these.
    pub(crate) reused: BTreeSet<String>,
    /// Those that are free.
    pub(crate) free: BTreeSet<String>,
    /// How many of the free ones it gets.
    pub(crate) needed: usize,
}

/// Devices that were chosen. No other container gets them until they are committed or cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation<P> {
    pub(crate) plugin: P,
    pub(crate) devices: BTreeSet<String>,
}

impl<P: Clone> State<P> {
    /// The devices that the container can get; `None` if it has all that it asks for.
    pub(crate) fn candidates(&self, wanted: &Wanted<'_>) -> Result<Option<Candidates<P>>, AllocateError> {
        let name = || wanted.resource.to_owned();
        let held = self.allocations.get(&wanted.pod.uid, wanted.container, wanted.resource);
        let count = usize::try_from(wanted.count).unwrap_or(usize::MAX);
        if let Some(before) = held.map(|held| held.ids().len()).filter(|before| *before != count) {
            let (pod, container) = (wanted.pod.uid.clone(), wanted.container.to_owned());
            return Err(AllocateError::Changed {
                pod,
                container,
                resource: name(),
                before,
                now: wanted.count,
            });
        }
        let resource = self.resources.get(wanted.resource);
        let resource = resource.ok_or_else(|| AllocateError::Unregistered { resource: name() })?;
        if resource.healthy().next().is_none() {
            return Err(AllocateError::NoneHealthy { resource: name() });
        }
        if let Some(held) = held {
            let is_whole = held.ids().into_iter().all(|id| resource.is_healthy(id));
            return if is_whole { Ok(None) } else { Err(AllocateError::Unhealthy { resource: name() }) };
        }
        let plugin = resource.plugin().ok_or_else(|| AllocateError::NoPlugin { resource: name() })?;
        let reused: BTreeSet<String> = self.reusable(wanted).into_iter().take(count).collect();
        let free = self.free(wanted.resource, resource);
        let needed = count - reused.len();
        if free.len() < needed {
            let (requested, available) = (needed, free.len());
            return Err(AllocateError::TooFew { resource: name(), requested, available });
        }
        Ok(Some(Candidates { plugin, reused, free, needed }))
    }

    /// Chooses devices, of the free ones those that the plugin prefers first, and keeps them for this container; `None` if it
    /// has all that it asks for.
    pub(crate) fn reserve(
        &mut self,
        wanted: &Wanted<'_>,
        preferred: &[String],
    ) -> Result<Option<Reservation<P>>, AllocateError> {
        let Some(Candidates { plugin, reused, free, needed }) = self.candidates(wanted)? else {
            return Ok(None);
        };
        let preferred: BTreeSet<&String> = preferred.iter().filter(|id| free.contains(*id)).collect();
        let others = free.iter().filter(|id| !preferred.contains(id));
        let chosen = preferred.iter().copied().chain(others).take(needed).cloned();
        let devices: BTreeSet<String> = chosen.chain(reused).collect();
        let reserved = self.reserved.entry(wanted.resource.to_owned()).or_default();
        reserved.extend(devices.iter().cloned());
        Ok(Some(Reservation { plugin, devices }))
    }

    /// The devices are not given to the container after all.
    pub(crate) fn cancel(&mut self, resource: &str, devices: &BTreeSet<String>) {
        if let Some(reserved) = self.reserved.get_mut(resource) {
            reserved.retain(|id| !devices.contains(id));
            if reserved.is_empty() {
                self.reserved.remove(resource);
            }
        }
    }

    /// The container has these devices from now on, by this answer of their plugin.
    pub(crate) fn commit(
        &mut self,
        wanted: &Wanted<'_>,
        devices: &BTreeSet<String>,
        response: ContainerAllocateResponse,
    ) {
        self.cancel(wanted.resource, devices);
        let resource = self.resources.get(wanted.resource);
        let mut by_node = DevicesPerNuma::new();
        for id in devices {
            let numa = resource.and_then(|resource| resource.device(id)).map(|device| device.numa.as_slice());
            let nodes = numa.filter(|nodes| !nodes.is_empty()).unwrap_or(&[NO_NUMA]);
            nodes.iter().for_each(|node| by_node.entry(*node).or_default().push(id.clone()));
        }
        let allocation = Allocation { devices: by_node, response, is_confirmed: true };
        self.allocations.insert(&wanted.pod.uid, wanted.container, wanted.resource, allocation);
    }

    /// The container has no devices of this resource after all.
    pub(crate) fn take_back(&mut self, wanted: &Wanted<'_>) {
        self.allocations.remove(&wanted.pod.uid, wanted.container, wanted.resource);
    }

    /// The devices that init containers before this container have and no other one before it has taken over.
    fn reusable(&self, wanted: &Wanted<'_>) -> BTreeSet<String> {
        let before = wanted.pod.containers.iter().take_while(|one| one.name != wanted.container);
        let mut reusable: BTreeSet<&str> = BTreeSet::new();
        for container in before {
            let held = self.allocations.get(&wanted.pod.uid, &container.name, wanted.resource);
            let ids = held.map(Allocation::ids).unwrap_or_default();
            match container.lifetime {
                Lifetime::Init => reusable.extend(ids),
                Lifetime::Pod => reusable.retain(|id| !ids.contains(id)),
            }
        }
        reusable.into_iter().map(str::to_owned).collect()
    }

    fn free(&self, name: &str, resource: &Resource<P>) -> BTreeSet<String> {
        let in_use = self.allocations.in_use(name);
        let reserved = self.reserved.get(name);
        let is_reserved = |id: &str| reserved.is_some_and(|reserved| reserved.contains(id));
        let healthy = resource.healthy().map(|(id, _)| id);
        healthy.filter(|id| !in_use.contains(id) && !is_reserved(id)).map(str::to_owned).collect()
    }
}
