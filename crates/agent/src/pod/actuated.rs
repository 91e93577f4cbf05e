//! The resources that the pods of the node have in effect, in the file of a kubelet: a kubelet that takes the node over finds
//! its containers as they are, and restarts none for its resources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::pod::allocation::{PodAllocation, ResourceCheckpoint};
use crate::pod::running::RunningPods;

/// The file, and what a kubelet has left in it.
#[derive(Debug)]
pub(crate) struct ActuatedPods {
    file: Mutex<ResourceCheckpoint>,
    /// The entries of an earlier process, by UID, whose pods this one does not run yet. They stay in the file: whichever
    /// process adopts such a pod needs its entry.
    left: Mutex<BTreeMap<String, PodAllocation>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ActuatedPods {
    /// Reads the file in the kubelet's root directory. One that cannot be read is logged, and replaced.
    pub(crate) fn open(root: &Path) -> Self {
        let mut file = ResourceCheckpoint::actuated(root);
        let left = file.read().unwrap_or_else(|error| {
            warn!("{error}; pods of a kubelet are taken to have the resources that they were given");
            BTreeMap::new()
        });
        Self { file: Mutex::new(file), left: Mutex::new(left) }
    }

    /// What a pod had in effect when this process started, until this process runs it.
    pub(crate) fn left(&self, uid: &str) -> Option<PodAllocation> {
        lock(&self.left).get(uid).cloned()
    }

    /// Drops what an earlier process has left of pods that are not in `wanted`, by UID. Returns whether there was something.
    /// Call it only with a complete set of every source.
    pub(crate) fn retain(&self, wanted: &BTreeSet<String>) -> bool {
        let mut left = lock(&self.left);
        let before = left.len();
        left.retain(|uid, _| wanted.contains(uid));
        left.len() != before
    }

    /// Writes what the pods have in effect, if that has changed. What cannot be written is logged.
    pub(crate) fn save(&self, running: &RunningPods) {
        let mut file = lock(&self.file);
        let pods = running.all().into_iter().filter_map(|running| {
            let spec = running.pod.spec.as_ref()?;
            let in_effect = match &running.resize {
                Some(resize) => PodAllocation::of(&resize.in_effect(spec)),
                None => PodAllocation::of(spec),
            };
            Some((running.uid.as_str().to_owned(), in_effect))
        });
        let mut pods: BTreeMap<String, PodAllocation> = pods.collect();
        let mut left = lock(&self.left);
        left.retain(|uid, _| !pods.contains_key(uid));
        pods.extend(left.clone());
        drop(left);
        if let Err(error) = file.write(pods) {
            warn!("a kubelet that takes this node over may restart containers: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use manifest::k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use tokio::sync::mpsc;
    use types::PodUid;

    use super::*;
    use crate::pod::orders::Orders;
    use crate::pod::resize::record::ResizeRecord;
    use crate::pod::running::Running;
    use crate::ports::PodRef;

    #[test]
    fn the_file_has_what_is_in_effect_and_the_next_process_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let pod = |cpu: &str| -> Pod {
            let resources = json!({"requests": {"cpu": cpu}});
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "resources": resources}]}}))
                .unwrap()
        };
        let (given, before) = (pod("2"), PodAllocation::of(pod("1").spec.as_ref().unwrap()));
        let running = RunningPods::default();
        let uid = PodUid::new("u-1").unwrap();
        let orders = Orders { sender: mpsc::channel(1).0, changes: Arc::default() };
        running.insert("shop", "web", Running { uid: uid.clone(), pod: given.clone(), resize: None, orders });
        let actuated = ActuatedPods::open(dir.path());
        assert!(actuated.left("u-1").is_none());
        running.resized(&uid, ResizeRecord::of_kubelet(&before, given.spec.as_ref().unwrap()));
        actuated.save(&running);
        assert_eq!(ActuatedPods::open(dir.path()).left("u-1"), Some(before));
        running.resized(&uid, None);
        actuated.save(&running);
        let now = PodAllocation::of(given.spec.as_ref().unwrap());
        assert_eq!(ActuatedPods::open(dir.path()).left("u-1"), Some(now));
    }

    /// An agent that ended before it had adopted all pods of a kubelet took the resources of the others from the file.
    #[test]
    fn what_a_kubelet_has_left_stays_until_its_pod_is_managed_or_gone() {
        let dir = tempfile::tempdir().unwrap();
        let pod = |cpu: &str| -> Pod {
            let resources = json!({"requests": {"cpu": cpu}});
            let spec = json!({"containers": [{"name": "a", "resources": resources}]});
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
        };
        let of = |cpu: &str| PodAllocation::of(pod(cpu).spec.as_ref().unwrap());
        let left = ["u-1", "u-2", "u-3"].map(|uid| (uid.to_owned(), of("1")));
        ResourceCheckpoint::actuated(dir.path()).write(BTreeMap::from(left)).unwrap();
        let read = |uid: &str| ActuatedPods::open(dir.path()).left(uid);

        let actuated = ActuatedPods::open(dir.path());
        let running = RunningPods::default();
        actuated.save(&running);
        assert_eq!(["u-1", "u-2", "u-3"].map(read), [Some(of("1")), Some(of("1")), Some(of("1"))]);

        let uid = PodUid::new("u-1").unwrap();
        let orders = Orders { sender: mpsc::channel(1).0, changes: Arc::default() };
        running.insert("shop", "web", Running { uid: uid.clone(), pod: pod("2"), resize: None, orders });
        actuated.save(&running);
        assert_eq!((read("u-1"), read("u-2")), (Some(of("2")), Some(of("1"))));

        let wanted = BTreeSet::from(["u-2".to_owned()]);
        assert!(actuated.retain(&wanted) && !actuated.retain(&wanted));
        let (namespace, name) = ("shop".to_owned(), "web".to_owned());
        running.forget(&PodRef { namespace, name, uid });
        actuated.save(&running);
        assert_eq!(["u-1", "u-2", "u-3"].map(read), [None, Some(of("1")), None]);
    }
}
