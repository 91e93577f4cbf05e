//! One resource: the plugins that are connected for it, and its devices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// A resource whose plugins are gone for longer is forgotten, as by a kubelet.
pub(crate) const GRACE: Duration = Duration::from_mins(5);

/// Whether a device can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Health {
    /// It can.
    Healthy,
    /// Its plugin says that it cannot, or its plugin is gone.
    Unhealthy,
}

/// How many devices a resource has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCount {
    /// All of them.
    pub capacity: usize,
    /// Those that can be used, whether a container has them or not.
    pub allocatable: usize,
}

/// A device as its plugin has described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) health: Health,
    /// The NUMA nodes that it is near to; none if the plugin does not say.
    pub(crate) numa: Vec<i64>,
}

/// Devices by ID.
pub(crate) type Devices = BTreeMap<String, Device>;

/// How many bytes the IDs of devices have.
pub(crate) fn bytes_of(devices: &Devices) -> usize {
    devices.keys().map(String::len).fold(0, usize::saturating_add)
}

/// A connected plugin.
#[derive(Debug)]
struct Connected<P> {
    socket: PathBuf,
    plugin: P,
    /// `None` before its first list.
    devices: Option<Devices>,
}

/// A resource that a plugin has registered, now or before.
#[derive(Debug)]
pub(crate) struct Resource<P> {
    /// In the order of their registration. The newest that has listed its devices is the one that counts: a plugin that is
    /// replaced serves on until its successor does.
    plugins: Vec<Connected<P>>,
    /// The devices of the plugin that counted last, while none does: all of them are unhealthy.
    lost: Devices,
    /// The plugin that counted last, while none does.
    last: Option<P>,
    /// When the last plugin was lost; `None` while one is connected.
    stopped: Option<Instant>,
    /// Whether a plugin has registered with this process.
    is_registered: bool,
}

impl<P: Clone> Resource<P> {
    /// A resource without plugins.
    pub(crate) fn new() -> Self {
        Self { plugins: Vec::new(), lost: Devices::new(), last: None, stopped: None, is_registered: false }
    }

    /// A resource that an earlier process has recorded. It has no devices until its plugin registers.
    pub(crate) fn recorded(now: Instant) -> Self {
        Self { stopped: Some(now), ..Self::new() }
    }

    pub(crate) fn connect(&mut self, socket: &Path, plugin: P) {
        self.plugins.push(Connected { socket: socket.to_owned(), plugin, devices: None });
        self.stopped = None;
        self.is_registered = true;
    }

    /// The complete list of devices of the plugin at this socket.
    pub(crate) fn list(&mut self, socket: &Path, devices: Devices) {
        if let Some(plugin) = self.plugins.iter_mut().find(|plugin| plugin.socket == socket) {
            plugin.devices = Some(devices);
        }
    }

    /// The plugin at this socket is gone.
    pub(crate) fn disconnect(&mut self, socket: &Path, now: Instant) {
        if let Some((plugin, devices)) = self.active().map(|one| (one.plugin.clone(), one.devices.clone())) {
            (self.last, self.lost) = (Some(plugin), devices.unwrap_or_default());
        }
        self.plugins.retain(|plugin| plugin.socket != socket);
        if self.plugins.is_empty() && self.stopped.is_none() {
            self.stopped = Some(now);
        }
    }

    /// The plugin that counts.
    fn active(&self) -> Option<&Connected<P>> {
        self.plugins.iter().rev().find(|plugin| plugin.devices.is_some())
    }

    pub(crate) fn plugin(&self) -> Option<P> {
        self.active().map(|active| active.plugin.clone())
    }

    /// The plugin that counts, or did when one did last.
    pub(crate) fn latest_plugin(&self) -> Option<P> {
        self.plugin().or_else(|| self.last.clone())
    }

    /// How many plugins are connected.
    pub(crate) fn plugins(&self) -> usize {
        self.plugins.len()
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.is_registered
    }

    fn listed(&self) -> Option<&Devices> {
        self.active().and_then(|active| active.devices.as_ref())
    }

    /// How many bytes the IDs of its devices have, without the list of the plugin at `replaced`, which gets another one.
    pub(crate) fn bytes_beside(&self, replaced: Option<&Path>) -> usize {
        if replaced.is_none() && self.active().is_none() {
            return bytes_of(&self.lost);
        }
        let others = self.plugins.iter().filter(|plugin| Some(plugin.socket.as_path()) != replaced);
        let listed = others.filter_map(|plugin| plugin.devices.as_ref()).map(bytes_of);
        listed.fold(0, usize::saturating_add)
    }

    pub(crate) fn device(&self, id: &str) -> Option<&Device> {
        self.listed().unwrap_or(&self.lost).get(id)
    }

    pub(crate) fn is_healthy(&self, id: &str) -> bool {
        self.listed()
            .and_then(|devices| devices.get(id))
            .is_some_and(|device| device.health == Health::Healthy)
    }

    /// The devices that can be used, by ID.
    pub(crate) fn healthy(&self) -> impl Iterator<Item = (&str, &Device)> {
        let all = self.listed().into_iter().flatten();
        all.filter(|(_, device)| device.health == Health::Healthy).map(|(id, device)| (id.as_str(), device))
    }

    pub(crate) fn count(&self) -> DeviceCount {
        let capacity = self.listed().unwrap_or(&self.lost).len();
        DeviceCount { capacity, allocatable: self.healthy().count() }
    }

    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.stopped.is_some_and(|stopped| now.saturating_duration_since(stopped) > GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(all: &[(&str, Health)]) -> Devices {
        let device =
            |(id, health): &(&str, Health)| ((*id).to_owned(), Device { health: *health, numa: Vec::new() });
        all.iter().map(device).collect()
    }

    fn count(capacity: usize, allocatable: usize) -> DeviceCount {
        DeviceCount { capacity, allocatable }
    }

    #[tokio::test(start_paused = true)]
    async fn the_devices_of_a_lost_plugin_stay_unhealthy_until_they_are_forgotten() {
        let (now, socket) = (Instant::now(), Path::new("a.sock"));
        let mut resource = Resource::recorded(now);
        assert!(!resource.is_registered());
        resource.connect(socket, 1);
        assert_eq!((resource.count(), resource.plugin()), (count(0, 0), None));
        resource.list(socket, devices(&[("a", Health::Healthy), ("b", Health::Unhealthy)]));
        assert_eq!((resource.count(), resource.plugin()), (count(2, 1), Some(1)));
        resource.disconnect(socket, now);
        assert_eq!((resource.count(), resource.plugin()), (count(2, 0), None));
        assert!(resource.device("a").is_some() && !resource.is_healthy("a"));
        assert!(!resource.is_expired(now + GRACE));
        assert!(resource.is_expired(now + GRACE + Duration::from_millis(1)));
        resource.connect(socket, 2);
        assert!(!resource.is_expired(now + 2 * GRACE));
    }

    /// A DaemonSet that is rolled out with a surge has two plugins for a while.
    #[tokio::test(start_paused = true)]
    async fn a_plugin_serves_on_until_its_successor_has_listed_its_devices() {
        let now = Instant::now();
        let mut resource = Resource::recorded(now);
        let (old, new) = (Path::new("old.sock"), Path::new("new.sock"));
        resource.connect(old, 1);
        resource.list(old, devices(&[("a", Health::Healthy)]));
        resource.connect(new, 2);
        assert_eq!((resource.plugin(), resource.count()), (Some(1), count(1, 1)));
        resource.list(new, devices(&[("a", Health::Healthy), ("b", Health::Healthy)]));
        assert_eq!((resource.plugin(), resource.count()), (Some(2), count(2, 2)));
        // The successor fails: what it has replaced is there again.
        resource.disconnect(new, now);
        assert_eq!((resource.plugin(), resource.count()), (Some(1), count(1, 1)));
        resource.disconnect(old, now);
        assert_eq!((resource.plugin(), resource.count()), (None, count(1, 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_never_listed_devices_leaves_those_of_another_as_they_are() {
        let now = Instant::now();
        let mut resource = Resource::recorded(now);
        let (old, new) = (Path::new("old.sock"), Path::new("new.sock"));
        resource.connect(old, 1);
        resource.list(old, devices(&[("a", Health::Healthy)]));
        resource.connect(new, 2);
        resource.disconnect(old, now);
        assert_eq!((resource.plugin(), resource.count()), (None, count(1, 0)));
        resource.disconnect(new, now);
        assert_eq!(resource.count(), count(1, 0));
    }
}
