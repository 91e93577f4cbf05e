//! The pods that this agent runs, by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manifest::k8s_openapi::api::core::v1::Pod;
use tokio::sync::Notify;
use types::PodUid;

use crate::pod::orders::Orders;
use crate::pod::resize::record::ResizeRecord;
use crate::ports::PodRef;

/// A pod that this process runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) uid: PodUid,
    /// The definition that it runs with.
    pub(crate) pod: Pod,
    /// What of it does not have the resources of its definition yet.
    pub(crate) resize: Option<ResizeRecord>,
    pub(crate) orders: Orders,
}

impl Running {
    /// Whether its worker manages it: of a pod that has ended, no container is started any more.
    pub(crate) fn is_managed(&self) -> bool {
        !self.orders.sender.is_closed()
    }

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
    /// Notified when a pod or its resources have changed.
    changed: Arc<Notify>,
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

    /// Notified when a pod or its resources have changed.
    pub(crate) fn changes(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    pub(crate) fn insert(&self, namespace: &str, name: &str, running: Running) {
        self.pods().insert((namespace.to_owned(), name.to_owned()), running);
        self.changed.notify_one();
    }

    /// Stores what of a running pod does not have its resources yet.
    pub(crate) fn resized(&self, uid: &PodUid, resize: Option<ResizeRecord>) {
        if let Some(known) = self.pods().values_mut().find(|known| known.uid == *uid)
            && known.resize != resize
        {
            known.resize = resize;
            self.changed.notify_one();
        }
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
            self.changed.notify_one();
        }
    }

    /// Removes the pod with this UID. Another pod of the same name is kept.
    pub(crate) fn forget(&self, pod: &PodRef) {
        let mut pods = self.pods();
        let key = (pod.namespace.clone(), pod.name.clone());
        if pods.get(&key).is_some_and(|running| running.uid == pod.uid) {
            pods.remove(&key);
            self.changed.notify_one();
            self.removed.lock().unwrap_or_else(PoisonError::into_inner).insert(key, pod.uid.clone());
        }
    }
}
