//! Orders to the worker of a pod.

use std::time::Duration;

use manifest::k8s_openapi::api::core::v1 as api;
use plan::Plan;
use tokio::sync::{mpsc, oneshot};

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
    /// Rewrite the files of volumes: the objects that the pod references may have changed.
    Refresh,
}

/// Sends orders to the worker of a pod. Clones send to the same worker. An order to a worker that has ended
/// is ignored.
#[derive(Clone)]
pub struct Orders(pub(crate) mpsc::Sender<Order>);

impl Orders {
    /// Stops the pod, within `grace` if that is less than its own grace period.
    pub async fn stop(&self, grace: Option<Duration>) {
        // The channel is closed once the worker has ended.
        let _ = self.0.send(Order::Stop(grace)).await;
    }

    /// Rewrites the files of the pod's volumes after a change of the objects that it references.
    pub async fn refresh(&self) {
        let _ = self.0.send(Order::Refresh).await;
    }
}
