//! Orders to the worker of a pod.

use std::sync::Arc;
use std::time::Duration;

use manifest::k8s_openapi::api::core::v1 as api;
use plan::Plan;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::error::Result;

/// An order to a pod's worker.
#[derive(Debug)]
pub(crate) enum Order {
    /// Apply a new definition, which differs only in mutable fields.
    Update {
        /// The definition.
        pod: Box<api::Pod>,
        /// Plans for it. The one with the pod's user namespace is used; without one the pod keeps the plan that it has.
        plans: Vec<Plan>,
        /// Receives the result once the definition is recorded and applied.
        done: oneshot::Sender<Result<()>>,
    },
    /// Stop the pod within this grace period, if it is less than the pod's own.
    Stop(Option<Duration>),
}

/// Sends orders to the worker of a pod. Clones send to the same worker. An order to a worker that has ended
/// is ignored.
#[derive(Clone)]
pub struct Orders {
    pub(crate) sender: mpsc::Sender<Order>,
    /// Notified when objects that the pod may reference have changed.
    pub(crate) changes: Arc<Notify>,
}

impl Orders {
    /// Stops the pod, within `grace` if that is less than its own grace period.
    pub async fn stop(&self, grace: Option<Duration>) {
        // The channel is closed once the worker has ended.
        let _ = self.sender.send(Order::Stop(grace)).await;
    }

    /// Has the files of the pod's volumes rewritten after a change of the objects that it references. Returns at once, and
    /// any number of changes that the worker has not taken up yet are one: a pod whose objects change all the time must not
    /// hold up the caller, which drives all pods.
    pub fn refresh(&self) {
        self.changes.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that was busy, and a bounded channel of such orders, held up the loop of all pods.
    #[tokio::test]
    async fn changes_are_told_without_waiting_for_the_worker() {
        let (sender, _inbox) = mpsc::channel(1);
        let orders = Orders { sender, changes: Arc::new(Notify::new()) };
        for _ in 0..1000 {
            orders.refresh();
        }
        orders.changes.notified().await;
        let second = tokio::time::timeout(Duration::from_millis(50), orders.changes.notified()).await;
        assert!(second.is_err(), "a thousand changes are one");
    }
}
