//! The resources that the admitted pods were given. The API may ask for others: those count once they are admitted.
//!
//! They are kept in the file of a kubelet, in its root directory, so that either of the two can take over the node from the
//! other in the middle of a resize.

use std::collections::{BTreeMap, HashMap, HashSet};
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
    /// The pods for whose resize others are ended, by UID: what they ask for counts already.
    reserved: HashSet<String>,
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
        let pods = known.into_iter().collect();
        Self { pods, file: Some(file), is_changed: true, ..Self::default() }
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

    /// The resources of this pod that count, as a pod: `None` if they are those that it asks for.
    pub(super) fn given_to(&self, uid: &str, pod: &Pod) -> Option<Pod> {
        if self.reserved.contains(uid) {
            return None;
        }
        let (known, spec) = (self.pods.get(uid)?, pod.spec.as_ref()?);
        (!known.is_of(spec)).then(|| Pod { spec: Some(known.applied_to(spec.clone())), ..pod.clone() })
    }

    /// Has what a pod asks for count, while others are ended for it: nothing else may take what they leave.
    pub(super) fn reserve(&mut self, uid: &str) {
        self.reserved.insert(uid.to_owned());
    }

    /// What a pod was given counts again, whatever it asks for.
    pub(super) fn unreserve(&mut self, uid: &str) {
        self.reserved.remove(uid);
    }

    /// Notes what an admitted pod is given.
    pub(super) fn give(&mut self, uid: &str, spec: &PodSpec) {
        self.pods.insert(uid.to_owned(), PodAllocation::of(spec));
        self.is_changed = true;
    }

    /// Gives a pod that has been given something all that it asks for now.
    pub(super) fn follow(&mut self, pod: &ApiPod) {
        let uid = pod.pod.uid.as_str();
        let asked = pod_of(pod).and_then(|pod| pod.spec.as_ref());
        if let (Some(known), Some(spec)) = (self.pods.get(uid), asked)
            && !known.is_of(spec)
        {
            self.give(uid, spec);
        }
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
    pub(super) async fn save(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let Some(mut file) = self.file.take() else { return };
        let pods = self.pods.iter().map(|(uid, pod)| (uid.clone(), pod.clone())).collect();
        let write = move || {
            let written = file.write(pods);
            (file, written)
        };
        let cause = match tokio::task::spawn_blocking(write).await {
            Ok((file, written)) => {
                self.file = Some(file);
                written.err().map(|error| error.to_string())
            }
            Err(cause) => Some(cause.to_string()),
        };
        if let Some(cause) = cause {
            warn!("a process that comes after this one may not know the resources of pods: {cause}");
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

    #[tokio::test]
    async fn a_pod_keeps_what_it_was_given_beyond_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut allocations = Allocations::load(dir.path());
        allocations.give("u-1", pod_of(&pod("1")).unwrap().spec.as_ref().unwrap());
        allocations.save().await;
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
        next.save().await;
        assert_eq!(Allocations::load(dir.path()).pods.len(), 1);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_does_not_keep_the_node_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("allocated_pods_state"), r#"{"data":"{}","checksum":1}"#).unwrap();
        let mut allocations = Allocations::load(dir.path());
        assert_eq!(cpu(&allocations.given(&pod("2"))), "2");
        allocations.save().await;
        let text = std::fs::read_to_string(dir.path().join("allocated_pods_state")).unwrap();
        assert!(text.contains("694314937"), "a kubelet can start here again: {text}");
    }

    /// A static pod whose manifest has its UID kept the resources that it was given first, whatever was written there later.
    #[test]
    fn a_pod_that_follows_its_manifest_is_given_what_it_asks_for() {
        let mut allocations = Allocations::default();
        allocations.follow(&pod("1"));
        assert!(allocations.get("u-1").is_none(), "it is not admitted");
        allocations.recorded("u-1", pod_of(&pod("1")).unwrap());
        allocations.follow(&pod("2"));
        assert_eq!(cpu(&allocations.given(&pod("3"))), "2");
        assert!(allocations.is_changed);
    }

    /// What victims of a critical pod's resize left was taken by others, so that it was asked for again, with more victims.
    #[test]
    fn what_a_pod_asks_for_counts_while_others_are_ended_for_it() {
        let mut allocations = Allocations::default();
        let asked = pod("2");
        allocations.give("u-1", pod_of(&pod("1")).unwrap().spec.as_ref().unwrap());
        allocations.reserve("u-1");
        assert!(allocations.given_to("u-1", pod_of(&asked).unwrap()).is_none(), "all that it asks for");
        assert_eq!(cpu(&allocations.given(&asked)), "1", "it does not have it yet");
        allocations.unreserve("u-1");
        assert!(allocations.given_to("u-1", pod_of(&asked).unwrap()).is_some());
    }
}
