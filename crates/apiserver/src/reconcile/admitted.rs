//! The pods that this node has admitted: new pods are judged beside them, and they are not judged again.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use agent::PodStatus;
use manifest::Resource;
use manifest::k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::Wanted;
use super::allocations::Allocations;
use crate::pods::ApiPod;

/// In the state directory: the UIDs of admitted pods without a record.
const FILE: &str = "admitted.json";
const VERSION: u32 = 1;

/// Admitted pods that could not be started yet. Pods that were started have a record of the agent.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    version: u32,
    uids: BTreeSet<String>,
}

impl durable::Record for Waiting {
    const VERSION: u32 = VERSION;
}

/// The pods that this node has admitted and that are not over.
#[derive(Debug, Default)]
pub(super) struct AdmittedPods {
    /// By UID, as the agent has recorded them; `None` until they are seen.
    pods: HashMap<String, Option<Pod>>,
    /// Recorded pods of which no container runs, and none will.
    ended: HashSet<String>,
    file: PathBuf,
    waiting: BTreeSet<String>,
    /// Whether the file lacks something.
    is_changed: bool,
}

/// Admitted pods beside another one.
pub(super) struct Beside<'a> {
    pub(super) uids: Vec<&'a str>,
    pods: Vec<Cow<'a, Pod>>,
}

impl Beside<'_> {
    /// The pods, with the resources that they were given.
    pub(super) fn pods(&self) -> Vec<&Pod> {
        self.pods.iter().map(|pod| &**pod).collect()
    }
}

impl AdmittedPods {
    /// Reads which pods earlier processes have admitted.
    pub(super) fn load(state: &Path) -> Self {
        let file = state.join(FILE);
        let waiting = durable::read_record::<Waiting>(&file).unwrap_or_else(|error| {
            warn!("{error}; pods that have not been started yet are judged again");
            None
        });
        let waiting = waiting.unwrap_or_default().uids;
        let mut all = Self { file, ..Self::default() };
        all.pods.extend(waiting.iter().map(|uid| (uid.clone(), None)));
        all.waiting = waiting;
        // What cannot be read is reported when the pods of earlier processes are looked through.
        for stored in agent::stored(state).map(|(stored, _)| stored).unwrap_or_default() {
            let uid = stored.record.uid.as_str().to_owned();
            if stored.status.as_ref().is_some_and(PodStatus::is_terminated) {
                all.ended.insert(uid);
            } else {
                all.pods.insert(uid, Some(stored.record.pod));
            }
        }
        all
    }

    /// Notes pods that another agent has admitted, and that run.
    pub(super) fn add_running(&mut self, uids: &BTreeSet<String>) {
        uids.iter().for_each(|uid| self.insert(uid));
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Whether the pod has ended in an earlier process, whatever the API says.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        self.ended.contains(uid)
    }

    pub(super) fn insert(&mut self, uid: &str) {
        self.pods.entry(uid.to_owned()).or_default();
    }

    /// Notes that a pod is over, or that nothing of it is on this node.
    pub(super) fn remove(&mut self, uid: &str) {
        self.pods.remove(uid);
        self.ended.remove(uid);
        self.started(uid);
    }

    /// Notes that an admitted pod cannot be started now: a later process must know that it was admitted.
    pub(super) fn waits(&mut self, uid: &str) {
        if self.contains(uid) {
            self.is_changed |= self.waiting.insert(uid.to_owned());
        }
    }

    /// Notes that a pod has a record.
    pub(super) fn started(&mut self, uid: &str) {
        self.is_changed |= self.waiting.remove(uid);
    }

    /// Writes the file if something has changed.
    pub(super) async fn save(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let waiting = Waiting { version: VERSION, uids: self.waiting.clone() };
        let file = self.file.clone();
        let write = move || {
            let text = serde_json::to_vec(&waiting).map_err(|error| error.to_string())?;
            durable::write(&file, &text).map_err(|error| error.to_string())
        };
        let written = tokio::task::spawn_blocking(write).await;
        if let Err(error) = written.unwrap_or_else(|cause| Err(cause.to_string())) {
            warn!("pods that wait are judged again if this process ends: {error}");
        }
    }

    /// The pods that earlier processes have recorded, by UID.
    pub(super) fn recorded(&self) -> impl Iterator<Item = (&str, &Pod)> {
        self.pods.iter().filter_map(|(uid, pod)| Some((uid.as_str(), pod.as_ref()?)))
    }

    /// A pod as an earlier process has recorded it.
    pub(super) fn recorded_pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid)?.as_ref()
    }

    /// The admitted pods beside this one, as the sources have them but for the resources that they were given. One that no
    /// source has is counted until all have delivered their pods.
    pub(super) fn beside<'a>(
        &'a self,
        uid: &str,
        wanted: &'a Wanted,
        allocations: &Allocations,
    ) -> Beside<'a> {
        let (mut uids, mut pods) = (Vec::new(), Vec::new());
        for (other, recorded) in self.pods.iter().filter(|(other, _)| *other != uid) {
            let current = wanted.by_uid(other).map(|pod| pod_of(pod));
            let recorded = || recorded.as_ref().filter(|_| !wanted.is_complete());
            if let Some(pod) = current.unwrap_or_else(recorded) {
                uids.push(other.as_str());
                pods.push(allocations.given_to(other, pod).map_or(Cow::Borrowed(pod), Cow::Owned));
            }
        }
        Beside { uids, pods }
    }
}

/// The pod of a definition that could be read.
pub(crate) fn pod_of(pod: &ApiPod) -> Option<&Pod> {
    match pod.object().map(|object| &object.resource) {
        Some(Resource::Pod(pod)) => Some(pod),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::pods::PodSet;

    fn wanted(names: &[&str]) -> Wanted {
        let pods = names.iter().map(|name| {
            let pod = json!({
                "metadata": {"name": name, "namespace": "shop", "uid": name},
                "spec": {"containers": [{"name": "a", "image": "i"}]},
            });
            Arc::new(ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap())
        });
        Wanted { api: Some(Arc::new(PodSet { pods: pods.collect(), ..PodSet::default() })), files: None }
    }

    #[tokio::test]
    async fn a_pod_that_waits_is_admitted_for_the_next_process_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut admitted = AdmittedPods::load(dir.path());
        let wanted = wanted(&["a", "b", "c"]);
        admitted.insert("a");
        admitted.insert("b");
        // Not admitted: it says nothing.
        admitted.waits("c");
        admitted.waits("a");
        admitted.save().await;
        assert_eq!(admitted.beside("c", &wanted, &Allocations::default()).pods.len(), 2);
        let mut next = AdmittedPods::load(dir.path());
        assert!(next.contains("a") && !next.contains("b") && !next.contains("c"));
        assert_eq!(next.beside("c", &wanted, &Allocations::default()).uids, ["a"]);
        next.remove("a");
        next.save().await;
        assert!(!AdmittedPods::load(dir.path()).contains("a"));
    }
}
