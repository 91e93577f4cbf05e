//! Giving devices to containers.

use std::collections::BTreeSet;

use tokio::time::Instant;
use tracing::debug;

use crate::api::v1beta1::ContainerAllocateResponse;
use crate::edits::{self, ContainerEdits};
use crate::error::{AllocateError, PluginCall};
use crate::manager::DeviceManager;
use crate::plugin::{Plugin, Preference};
use crate::request::PodRequest;
use crate::state::{Candidates, Reservation, Wanted};

/// Chosen devices, which others may have again when this is dropped before they are committed.
struct Chosen<'a> {
    manager: &'a DeviceManager,
    resource: &'a str,
    devices: BTreeSet<String>,
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        self.manager.state().cancel(self.resource, &self.devices);
    }
}

impl DeviceManager {
    /// Gives a pod that is admitted the devices that its containers ask for, and records that. Containers that have theirs
    /// already keep them. After an error no container has others than before.
    ///
    /// # Errors
    /// Why the pod cannot have them.
    pub async fn allocate(&self, pod: &PodRequest) -> Result<(), AllocateError> {
        let all = pod.containers.iter().flat_map(|container| self.wanted(pod, &container.name));
        self.allocate_all(all.collect()).await
    }

    /// What a container gets that is about to start: its devices are allocated if they are not, and their plugins are called
    /// where they want to.
    ///
    /// # Errors
    /// Why the container cannot start now.
    pub async fn start_container(
        &self,
        pod: &PodRequest,
        container: &str,
    ) -> Result<ContainerEdits, AllocateError> {
        let all = self.wanted(pod, container);
        let mut new = Vec::new();
        for wanted in &all {
            let is_allocated = self.state().allocations().get(&pod.uid, container, wanted.resource).is_some();
            if is_allocated {
                self.state().confirm(wanted)?;
            } else {
                new.push(*wanted);
            }
        }
        self.allocate_all(new).await?;
        for wanted in &all {
            self.pre_start(wanted).await?;
        }
        let state = self.state();
        let held = state.allocations().of(&pod.uid, container).into_iter().flatten();
        Ok(ContainerEdits::merged(held.map(|(_, allocation)| &allocation.response)))
    }

    /// What of a container's requests is of device plugins.
    fn wanted<'a>(&self, pod: &'a PodRequest, container: &str) -> Vec<Wanted<'a>> {
        let Some(container) = pod.container(container) else { return Vec::new() };
        let state = self.state();
        let known =
            container.resources.iter().filter(|(name, count)| **count > 0 && state.is_known(name.as_str()));
        let wanted = |(resource, count): (&'a String, &u64)| Wanted {
            pod,
            container: &container.name,
            resource,
            count: *count,
        };
        known.map(wanted).collect()
    }

    /// Gives containers all of these devices, and records that. If one cannot be given or nothing can be recorded, none is: the
    /// next process would give devices that are not recorded to others.
    async fn allocate_all(&self, all: Vec<Wanted<'_>>) -> Result<(), AllocateError> {
        let mut new = Vec::new();
        for wanted in all {
            match self.allocate_one(&wanted).await {
                Ok(true) => new.push(wanted),
                Ok(false) => {}
                Err(error) => {
                    self.take_back(&new);
                    return Err(error);
                }
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        self.save().await.map_err(|error| {
            self.take_back(&new);
            AllocateError::NotRecorded(error.to_string())
        })
    }

    fn take_back(&self, new: &[Wanted<'_>]) {
        if new.is_empty() {
            return;
        }
        let mut state = self.state();
        new.iter().for_each(|wanted| state.take_back(wanted));
        drop(state);
        // A write of another change may have had them.
        self.save_soon();
    }

    /// Gives a container its devices of one resource. Returns whether it had none before.
    async fn allocate_one(&self, wanted: &Wanted<'_>) -> Result<bool, AllocateError> {
        let Some(candidates) = self.state().candidates(wanted)? else { return Ok(false) };
        let preferred = self.preferred(wanted, candidates).await?;
        let Some(Reservation { plugin, devices }) = self.state().reserve(wanted, &preferred)? else {
            return Ok(false);
        };
        let chosen = Chosen { manager: self, resource: wanted.resource, devices };
        let response = self.call(wanted, &plugin, &chosen.devices).await?;
        let ids: Vec<&str> = chosen.devices.iter().map(String::as_str).collect();
        debug!(pod = wanted.pod.uid, container = wanted.container, "allocated {}: {ids:?}", wanted.resource);
        self.state().commit(wanted, &chosen.devices, response);
        Ok(true)
    }

    /// What the plugin prefers, if it has preferences and there is a choice.
    async fn preferred(
        &self,
        wanted: &Wanted<'_>,
        candidates: Candidates<Plugin>,
    ) -> Result<Vec<String>, AllocateError> {
        let Candidates { plugin, reused, free, needed } = candidates;
        if needed == 0 || !plugin.has_preferences() {
            return Ok(Vec::new());
        }
        let available = reused.iter().cloned().chain(free).collect();
        let must_include = reused.into_iter().collect();
        let size = usize::try_from(wanted.count).unwrap_or(usize::MAX);
        let preferred = plugin.preferred(Preference { available, must_include, size }).await;
        preferred.map_err(|source| AllocateError::Plugin { call: PluginCall::GetPreferredAllocation, source })
    }

    async fn call(
        &self,
        wanted: &Wanted<'_>,
        plugin: &Plugin,
        devices: &BTreeSet<String>,
    ) -> Result<ContainerAllocateResponse, AllocateError> {
        let begun = Instant::now();
        let answer = plugin.allocate(devices.iter().cloned().collect()).await;
        self.inner.metrics.allocations.with([wanted.resource]).observe_duration(begun.elapsed());
        let answer = answer.map_err(|source| AllocateError::Plugin { call: PluginCall::Allocate, source })?;
        let response = answer.container_responses.into_iter().next();
        let response =
            response.ok_or_else(|| AllocateError::NoResponse { resource: wanted.resource.to_owned() })?;
        edits::check(wanted.resource, &response)?;
        Ok(response)
    }

    /// Calls the plugin before the container starts, where it wants that. If such a plugin is gone, the container waits.
    async fn pre_start(&self, wanted: &Wanted<'_>) -> Result<(), AllocateError> {
        let (plugin, devices) = {
            let state = self.state();
            let held = state.allocations().get(&wanted.pod.uid, wanted.container, wanted.resource);
            let devices: Vec<String> =
                held.map(|held| held.ids().into_iter().map(str::to_owned).collect()).unwrap_or_default();
            (state.latest_plugin(wanted.resource), devices)
        };
        let Some(plugin) = plugin.filter(Plugin::is_pre_start_required) else { return Ok(()) };
        let called = plugin.pre_start(devices).await;
        called.map_err(|source| AllocateError::Plugin { call: PluginCall::PreStartContainer, source })
    }
}
