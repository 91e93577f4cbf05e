//! The resources that the pods of the node have in effect, in the file of a kubelet: a kubelet that takes the node over finds
//! its containers as they are, and restarts none for its resources.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tracing::warn;

use crate::pod::allocation::{PodAllocation, ResourceCheckpoint};
use crate::pod::running::RunningPods;

/// The file, and what a kubelet has left in it.
#[derive(Debug)]
pub(crate) struct ActuatedPods {
    file: Mutex<ResourceCheckpoint>,
    left: BTreeMap<String, PodAllocation>,
}

impl ActuatedPods {
    /// Reads the file in the kubelet's root directory. One that cannot be read is logged, and replaced.
    pub(crate) fn open(root: &Path) -> Self {
        let mut file = ResourceCheckpoint::actuated(root);
        let left = file.read().unwrap_or_else(|error| {
            warn!("{error}; pods of a kubelet are taken to have the resources that they were given");
            BTreeMap::new()
        });
        Self { file: Mutex::new(file), left }
    }

    /// What a pod had in effect when this process started.
    pub(crate) fn left(&self, uid: &str) -> Option<&PodAllocation> {
        self.left.get(uid)
    }

    /// Writes what the pods have in effect, if that has changed. What cannot be written is logged.
    pub(crate) fn save(&self, running: &RunningPods) {
        let pods = running.all().into_iter().filter_map(|running| {
            let spec = running.pod.spec.as_ref()?;
            let in_effect = match &running.resize {
                Some(resize) => PodAllocation::of(&resize.in_effect(spec)),
                None => PodAllocation::of(spec),
            };
            Some((running.uid.as_str().to_owned(), in_effect))
        });
        let pods = pods.collect();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
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
        assert_eq!(ActuatedPods::open(dir.path()).left("u-1"), Some(&before));
        running.resized(&uid, None);
        actuated.save(&running);
        let now = PodAllocation::of(given.spec.as_ref().unwrap());
        assert_eq!(ActuatedPods::open(dir.path()).left("u-1"), Some(&now));
    }
}
