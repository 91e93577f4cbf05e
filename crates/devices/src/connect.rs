//! Plugins that come and go.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::manager::{DeviceManager, Following, PluginKey, lock};
use crate::plugin::Plugin;
use crate::state::Devices;

/// How often resources whose plugins are gone are looked for.
const EXPIRY: Duration = Duration::from_secs(10);

impl DeviceManager {
    /// Connects to the plugin of a resource at this socket, in the place of one that was there before, and follows its
    /// devices until it ends. Returns the number of the connection.
    ///
    /// # Errors
    /// Why the plugin cannot be used, for its author.
    pub(crate) async fn connect(&self, resource: &str, socket: &Path) -> Result<u64, String> {
        let connected = Plugin::connect(socket).await;
        let plugin = connected.map_err(|error| format!("failed to get device plugin options: {error}"))?;
        let key = PluginKey { resource: resource.to_owned(), socket: socket.to_owned() };
        let connection = self.inner.connections.fetch_add(1, Ordering::Relaxed);
        {
            // Held so that what follows the plugin, or has followed it before, finds all of this or nothing.
            let mut following = lock(&self.inner.following);
            self.end(&key, following.remove(&key));
            self.state().connect(resource, socket, plugin.clone())?;
            let task = tokio::spawn(self.clone().follow(key.clone(), connection, plugin)).abort_handle();
            following.insert(key, Following { connection, task });
        }
        self.inner.metrics.registrations.with([resource]).increment();
        info!(resource, socket = %socket.display(), "device plugin connected");
        self.changed();
        Ok(connection)
    }

    /// Ends this connection to a plugin, unless it has ended or another one has taken its place.
    pub(crate) fn disconnect(&self, key: &PluginKey, connection: u64) {
        let mut following = lock(&self.inner.following);
        if following.get(key).is_some_and(|known| known.connection == connection) {
            self.end(key, following.remove(key));
            drop(following);
            self.changed();
        }
    }

    /// Ends the connections to all plugins.
    pub(crate) fn disconnect_all(&self) {
        let mut following = lock(&self.inner.following);
        following.drain().for_each(|(key, of)| self.end(&key, Some(of)));
    }

    fn end(&self, key: &PluginKey, following: Option<Following>) {
        if let Some(Following { task, .. }) = following {
            task.abort();
            self.state().disconnect(&key.resource, &key.socket, Instant::now());
        }
    }

    /// Follows the devices of a plugin until it ends, or registers again.
    async fn follow(self, key: PluginKey, connection: u64, plugin: Plugin) {
        let cause = plugin.list_and_watch(|devices| self.listed(&key, connection, devices)).await;
        let mut following = lock(&self.inner.following);
        if following.get(&key).is_none_or(|known| known.connection != connection) {
            return;
        }
        self.end(&key, following.remove(&key));
        drop(following);
        warn!(
            resource = key.resource,
            "the device plugin at {} has ended, and its devices cannot be had until it registers again: {cause}",
            key.socket.display()
        );
        self.changed();
    }

    /// Takes a list of devices, unless another connection has taken the place of this one.
    ///
    /// # Errors
    /// Why the list is not taken: the connection ends.
    fn listed(&self, key: &PluginKey, connection: u64, devices: Devices) -> Result<(), String> {
        let following = lock(&self.inner.following);
        if following.get(key).is_some_and(|known| known.connection == connection) {
            let mut state = self.state();
            state.check_list(&key.resource, &key.socket, &devices)?;
            state.list(&key.resource, &key.socket, devices);
            drop((state, following));
            self.changed();
        }
        Ok(())
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
