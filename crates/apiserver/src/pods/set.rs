//! The complete set of this node's pods.

use std::sync::Arc;
use std::time::Duration;

use agent::ports::PodRef;
use tokio::sync::watch;

use crate::pods::pod::ApiPod;

/// The complete set of pods that are bound to this node, by namespace and name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSet {
    /// The pods. Pods that are being deleted, have ended, are mirror pods or cannot be read are among them.
    pub pods: Vec<Arc<ApiPod>>,
    /// Pods that were removed from the API lately, as they were last: a forced deletion may be seen only so.
    pub removed: Vec<Arc<ApiPod>>,
}

impl PodSet {
    /// The pod of this UID.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&Arc<ApiPod>> {
        self.pods.iter().find(|pod| pod.pod.uid.as_str() == uid)
    }

    /// The grace period that a removed pod was deleted with; `None` if it is not known.
    #[must_use]
    pub fn last_grace(&self, uid: &str) -> Option<Duration> {
        let removed = self.removed.iter().find(|pod| pod.pod.uid.as_str() == uid)?;
        removed.deletion.and_then(|deletion| deletion.grace)
    }

    /// The pod in the API that shows this pod of the agent: the pod itself, or the mirror pod of a static pod.
    #[must_use]
    pub fn shown(&self, pod: &PodRef) -> Option<&Arc<ApiPod>> {
        let is_mirror = |one: &&Arc<ApiPod>| {
            one.mirror.as_deref() == Some(pod.uid.as_str())
                && (&one.pod.namespace, &one.pod.name) == (&pod.namespace, &pod.name)
        };
        self.by_uid(pod.uid.as_str()).or_else(|| self.pods.iter().find(is_mirror))
    }
}

/// The newest set of pods, for tasks beside the one that takes the sets as a source. Clones are independent.
#[derive(Debug, Clone)]
pub struct PodsView(pub(crate) watch::Receiver<Option<Arc<PodSet>>>);

impl PodsView {
    /// The newest set; `None` until the first list of the API server is complete.
    #[must_use]
    pub fn current(&self) -> Option<Arc<PodSet>> {
        self.0.borrow().clone()
    }

    /// Waits for a set that this view has not waited for. Waits for ever if the watch has ended.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a complete set has been seen. Until then nothing may be removed because it is not in the set.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.borrow().is_some()
    }
}
