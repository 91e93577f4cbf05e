//! The pods that this agent runs, by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manifest::k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;
use types::PodUid;

use crate::pod::context::PodContext;
use crate::pod::orders::Orders;
use crate::pod::start_steps::StartSteps;
use crate::ports::PodRef;
use crate::status::view::PodStatus;

/// A pod that this process runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) uid: PodUid,
    /// The definition that it runs with.
    pub(crate) pod: Pod,
    pub(crate) orders: Orders,
    /// The pod after the latest update.
    pub(crate) context: watch::Receiver<Arc<PodContext>>,
    pub(crate) status: watch::Receiver<Option<PodStatus>>,
    pub(crate) steps: StartSteps,
}

impl Running {
    /// `namespace/name`.
    pub(crate) fn title(&self) -> String {
        let metadata = &self.pod.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        format!("{namespace}/{}", metadata.name.as_deref().unwrap_or_default())
    }
}

type Key = (String, String);
type Pods = HashMap<Key, Running>;

/// The pods that this process runs, by namespace and name. A pod is listed until it is removed, also after
/// its end.
#[derive(Default)]
pub(crate) struct RunningPods {
    pods: Mutex<Pods>,
    /// The UID of the pod of each name that this process removed last.
    removed: Mutex<HashMap<Key, PodUid>>,
}

impl RunningPods {
    fn pods(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The UID of the pod of this name that this process removed last.
    pub(crate) fn removed(&self, namespace: &str, name: &str) -> Option<PodUid> {
        let removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    pub(crate) fn insert(&self, namespace: &str, name: &str, running: Running) {
        self.pods().insert((namespace.to_owned(), name.to_owned()), running);
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Running> {
        self.pods().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Running> {
        self.pods().values().cloned().collect()
    }

    /// Stores the new definition of a running pod.
    pub(crate) fn updated(&self, running: &Running, pod: Pod) {
        let mut pods = self.pods();
        if let Some(known) = pods.values_mut().find(|known| known.uid == running.uid) {
            known.pod = pod;
        }
    }

    /// Removes the pod with this UID. Another pod of the same name is kept.
    pub(crate) fn forget(&self, pod: &PodRef) {
        let mut pods = self.pods();
        let key = (pod.namespace.clone(), pod.name.clone());
        if pods.get(&key).is_some_and(|running| running.uid == pod.uid) {
            pods.remove(&key);
            self.removed.lock().unwrap_or_else(PoisonError::into_inner).insert(key, pod.uid.clone());
        }
    }
}
