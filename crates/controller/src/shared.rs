use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::cluster::Cluster;

/// What is known of the cluster, for all tasks. It is held for as long as a change or an answer takes, and never across an
/// await.
pub(crate) struct Shared {
    cluster: Mutex<Cluster>,
    /// Notified after each change; one task waits for it.
    changed: Notify,
}

impl Shared {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster: Mutex::new(cluster), changed: Notify::new() }
    }

    /// Reads the cluster, or takes changes from it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        work(&mut self.cluster.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the cluster, and notifies the task that waits for it.
    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        let done = self.with(work);
        self.changed.notify_one();
        done
    }

    /// Waits for a change since it was called last.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
