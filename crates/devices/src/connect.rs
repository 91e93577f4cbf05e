//! Plugins that come and go.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::manager::{DeviceManager, PluginKey, lock};
use crate::plugin::Plugin;

/// How often resources whose plugins are gone are looked for.
const EXPIRY: Duration = Duration::from_secs(10);

impl DeviceManager {
    /// Connects to the plugin of a resource at this socket, in the place of one that was there before, and follows its
    /// devices until it ends.
    ///
    /// # Errors
    /// Why the plugin cannot be used, for its author.
    pub(crate) async fn connect(&self, resource: &str, socket: &Path) -> Result<(), String> {
        let connected = Plugin::connect(socket).await;
        let plugin = connected.map_err(|error| format!("failed to get device plugin options: {error}"))?;
        let key = PluginKey { resource: resource.to_owned(), socket: socket.to_owned() };
        self.disconnect(&key);
        // Before the first list comes, so that the end of what follows finds its entry.
        let mut following = lock(&self.inner.following);
        self.state().connect(resource, socket, plugin.clone())?;
        let task = tokio::spawn(self.clone().follow(key.clone(), plugin));
        following.insert(key, task.abort_handle());
        drop(following);
        self.inner.metrics.registrations.with([resource]).increment();
        info!(resource, socket = %socket.display(), "device plugin connected");
        self.changed();
        Ok(())
    }

    /// Ends the connection to a plugin, if there is one.
    pub(crate) fn disconnect(&self, key: &PluginKey) {
        if let Some(task) = lock(&self.inner.following).remove(key) {
            task.abort();
            self.state().disconnect(&key.resource, &key.socket, Instant::now());
            self.changed();
        }
    }

    /// Ends the connections to all plugins.
    pub(crate) fn disconnect_all(&self) {
        for (key, task) in lock(&self.inner.following).drain() {
            task.abort();
            self.state().disconnect(&key.resource, &key.socket, Instant::now());
        }
    }

    /// Follows the devices of a plugin until it ends.
    async fn follow(self, key: PluginKey, plugin: Plugin) {
        let manager = self.clone();
        let (resource, socket) = (key.resource.clone(), key.socket.clone());
        let cause = plugin
            .list_and_watch(move |devices| {
                manager.state().list(&resource, &socket, devices);
                manager.changed();
            })
            .await;
        warn!(
            resource = key.resource,
            "the device plugin at {} has ended, and its devices cannot be had until it registers again: {cause}",
            key.socket.display()
        );
        lock(&self.inner.following).remove(&key);
        self.state().disconnect(&key.resource, &key.socket, Instant::now());
        self.changed();
    }

    /// Forgets resources whose plugins are gone for long, for as long as the future is polled.
    pub(crate) async fn expire(self) {
        loop {
            tokio::time::sleep(EXPIRY).await;
            let is_one = self.state().expire(Instant::now());
            if is_one {
                self.changed();
            }
        }
    }
}
