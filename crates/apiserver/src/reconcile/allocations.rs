//! The resources that the admitted pods were given. The API may ask for others: those count once they are admitted.
//!
//! They are kept in the file of a kubelet, in its root directory, so that either of the two can take over the node from the
//! other in the middle of a resize.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use agent::{PodAllocation, ResourceCheckpoint};
use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};
use tracing::warn;

use super::admitted::pod_of;
use crate::pods::ApiPod;

/// What pods were given, by UID.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    pods: HashMap<String, PodAllocation>,
    file: Option<ResourceCheckpoint>,
    is_changed: bool,
}

impl Allocations {
    /// Reads what earlier processes, or a kubelet, have given the pods.
    pub(super) fn load(root: &Path) -> Self {
        let mut file = ResourceCheckpoint::allocated(root);
        let known = file.read().unwrap_or_else(|error| {
            warn!(
                "{error}; pods that were being resized are judged by what the API asks for: remove the file"
            );
            BTreeMap::new()
        });
        Self { pods: known.into_iter().collect(), file: Some(file), is_changed: true }
    }

    /// Takes what the agent has recorded of a pod, unless more is known of it.
    pub(super) fn recorded(&mut self, uid: &str, pod: &Pod) {
        if let Some(spec) = &pod.spec
            && !self.pods.contains_key(uid)
        {
            self.pods.insert(uid.to_owned(), PodAllocation::of(spec));
        }
    }

    pub(super) fn get(&self, uid: &str) -> Option<&PodAllocation> {
        self.pods.get(uid)
    }

    /// A pod with the resources that it was given in place of those that it asks for.
    pub(super) fn given(&self, pod: &Arc<ApiPod>) -> Arc<ApiPod> {
        let asked = pod_of(pod).and_then(|pod| pod.spec.as_ref());
        match (self.pods.get(pod.pod.uid.as_str()), asked) {
            (Some(known), Some(spec)) if !known.is_of(spec) => {
                Arc::new(pod.with_spec(known.applied_to(spec.clone())))
            }
            _ => Arc::clone(pod),
        }
    }

    /// The resources that this pod was given, as a pod: `None` if they are those that it asks for.
    pub(super) fn given_to(&self, uid: &str, pod: &Pod) -> Option<Pod> {
        let (known, spec) = (self.pods.get(uid)?, pod.spec.as_ref()?);
        (!known.is_of(spec)).then(|| Pod { spec: Some(known.applied_to(spec.clone())), ..pod.clone() })
    }

    /// Notes what an admitted pod is given.
    pub(super) fn give(&mut self, uid: &str, spec: &PodSpec) {
        self.pods.insert(uid.to_owned(), PodAllocation::of(spec));
        self.is_changed = true;
    }

    pub(super) fn remove(&mut self, uid: &str) {
        self.is_changed |= self.pods.remove(uid).is_some();
    }

    /// Forgets the pods that are gone.
    pub(super) fn retain(&mut self, is_here: impl Fn(&str) -> bool) {
        let before = self.pods.len();
        self.pods.retain(|uid, _| is_here(uid));
        self.is_changed |= self.pods.len() != before;
    }

    /// Writes the file if something has changed. What cannot be written is written with the next change.
    pub(super) fn save(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let Some(file) = &mut self.file else { return };
        let pods = self.pods.iter().map(|(uid, pod)| (uid.clone(), pod.clone()));
        if let Err(error) = file.write(pods.collect()) {
            warn!("a process that comes after this one may not know the resources of pods: {error}");
            self.is_changed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(cpu: &str) -> Arc<ApiPod> {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
            "spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        Arc::new(ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap())
    }

    fn cpu(pod: &ApiPod) -> String {
        let spec = pod_of(pod).unwrap().spec.clone().unwrap();
        spec.containers[0].resources.clone().unwrap().requests.unwrap()["cpu"].0.clone()
    }

    #[test]
    fn a_pod_keeps_what_it_was_given_beyond_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut allocations = Allocations::load(dir.path());
        allocations.give("u-1", pod_of(&pod("1")).unwrap().spec.as_ref().unwrap());
        allocations.save();
        let mut next = Allocations::load(dir.path());
        assert_eq!(cpu(&next.given(&pod("2"))), "1");
        let same = pod("1000m");
        assert!(Arc::ptr_eq(&next.given(&same), &same));
        // What is recorded of it is older.
        next.recorded("u-1", pod_of(&pod("3")).unwrap());
        next.recorded("u-2", pod_of(&pod("3")).unwrap());
        assert_eq!(cpu(&next.given(&pod("2"))), "1");
        assert!(next.get("u-2").is_some());
        next.retain(|uid| uid == "u-1");
        next.save();
        assert_eq!(Allocations::load(dir.path()).pods.len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_read_does_not_keep_the_node_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("allocated_pods_state"), r#"{"data":"{}","checksum":1}"#).unwrap();
        let mut allocations = Allocations::load(dir.path());
        assert_eq!(cpu(&allocations.given(&pod("2"))), "2");
        allocations.save();
        let text = std::fs::read_to_string(dir.path().join("allocated_pods_state")).unwrap();
        assert!(text.contains("694314937"), "a kubelet can start here again: {text}");
    }
}
