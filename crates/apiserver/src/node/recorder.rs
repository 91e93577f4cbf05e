//! Records events of the node.

use std::sync::Arc;

use agent::ports::{Clock, EventType};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tracing::warn;

use crate::events::{ApiEvents, NodeEvent};

/// Records events of the node, at its API server if it has one. Warnings are logged, too.
#[derive(Clone)]
pub(crate) struct NodeRecorder {
    clock: Arc<dyn Clock>,
    cluster: Option<Cluster>,
}

#[derive(Clone)]
struct Cluster {
    events: Arc<ApiEvents>,
    /// The Node as it was seen last.
    node: watch::Receiver<Option<Arc<Node>>>,
}

impl NodeRecorder {
    /// For a node of a cluster.
    pub(crate) fn new(
        events: Arc<ApiEvents>,
        clock: Arc<dyn Clock>,
        node: watch::Receiver<Option<Arc<Node>>>,
    ) -> Self {
        Self { clock, cluster: Some(Cluster { events, node }) }
    }

    /// For a node that only has static pods.
    pub(crate) fn without_cluster(clock: Arc<dyn Clock>) -> Self {
        Self { clock, cluster: None }
    }

    /// Records a warning.
    pub(crate) fn warn(&self, reason: &'static str, message: String) {
        warn!(reason, "{message}");
        self.record(EventType::Warning, reason, message);
    }

    /// Records an event.
    pub(crate) fn record(&self, kind: EventType, reason: &'static str, message: String) {
        let Some(Cluster { events, node }) = &self.cluster else { return };
        let uid = node.borrow().as_ref().and_then(|node| node.metadata.uid.clone()).unwrap_or_default();
        events.record_node(NodeEvent { kind, reason, uid, message, time: self.clock.now() });
    }
}
