//! What the reconciler works with.

use std::path::PathBuf;
use std::sync::Arc;

use admission::PodOrigin;
use agent::ports::{BoxFuture, Clock, EventSink, PodRef};
use agent::{Admitted, Agent};
use kubelet_api::SyncLoop;
use manifest::Object;

use super::{Metrics, NodeView, StartError, WaitingPods};
use crate::objects::ApiObjects;
use crate::pods::PodWatch;
use crate::runtime_classes::RuntimeClasses;
use crate::static_pods::{Mirrors, StaticPods};
use crate::status::ApiStatuses;

/// Decides whether and how a pod runs on this node.
pub trait Admission: Send + Sync {
    /// Admits a pod. The error says why it cannot run now, and what to do. It is never final: the pod is tried again.
    fn admit<'a>(
        &'a self,
        pod: &'a Object,
        origin: PodOrigin,
    ) -> BoxFuture<'a, Result<Box<Admitted>, StartError>>;
}

/// What the reconciler works with.
pub struct Ports {
    /// Runs the pods.
    pub agent: Agent,
    /// The agent's state directory.
    pub state: PathBuf,
    /// Decides on each pod before it is started or changed.
    pub admission: Arc<dyn Admission>,
    /// Receives why pods cannot be started.
    pub events: Arc<dyn EventSink>,
    /// The API server; `None` for a node that only has static pods.
    pub cluster: Option<Cluster>,
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Notes that this loop turns.
    pub sync_loop: SyncLoop,
    /// The node, as new pods are judged on it.
    pub node: NodeView,
    /// Counts rejections and refusals.
    pub metrics: Metrics,
    /// Receives which pods cannot be started, for the page of this node.
    pub waiting: WaitingPods,
}

/// The ports of the API server.
pub struct Cluster {
    /// Receives the end of pods.
    pub statuses: Arc<ApiStatuses>,
    /// The ConfigMaps and Secrets that pods reference.
    pub objects: ApiObjects,
    /// The mirror pods of static pods.
    pub mirrors: Mirrors,
    /// The runtime handlers of pods.
    pub runtime_classes: RuntimeClasses,
}

/// Where pods come from.
pub struct Sources {
    /// The API server; `None` for a node that only has static pods.
    pub api: Option<PodWatch>,
    /// The directory of static pods, if there is one.
    pub files: Option<StaticPods>,
}

impl Ports {
    /// Tells the API server that nothing of the pod is left here.
    pub(super) fn finish(&self, pod: &PodRef) {
        if let Some(cluster) = &self.cluster {
            cluster.statuses.finish(pod);
        }
    }
}
