//! The set of pods from the events of a watch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube::Resource as _;
use kube_runtime::watcher::Event;
use tracing::{error, warn};

use crate::pods::pod::{ApiPod, Definition};
use crate::pods::set::PodSet;
use crate::raw::RawObject;

/// How many removed pods are remembered.
const REMOVED: usize = 64;

/// Namespace and name.
type Key = (String, String);

/// The pods of the newest complete set, and of a list that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct PodStore {
    pods: BTreeMap<Key, Arc<ApiPod>>,
    listed: BTreeMap<Key, Arc<ApiPod>>,
    removed: VecDeque<Arc<ApiPod>>,
}

impl PodStore {
    /// Applies an event. Returns the new set; `None` while a list is not complete.
    pub(crate) fn apply(&mut self, event: &Event<RawObject>) -> Option<PodSet> {
        match event {
            Event::Init => {
                self.listed.clear();
                return None;
            }
            Event::InitApply(raw) => {
                if let Some(pod) = self.read(raw) {
                    self.listed.insert(key(raw), pod);
                }
                return None;
            }
            Event::InitDone => self.pods = std::mem::take(&mut self.listed),
            Event::Apply(raw) => {
                if let Some(pod) = self.read(raw) {
                    self.pods.insert(key(raw), pod);
                }
            }
            Event::Delete(raw) => {
                self.removed.extend(self.read(raw));
                self.removed.drain(..self.removed.len().saturating_sub(REMOVED));
                self.pods.remove(&key(raw));
            }
        }
        let (pods, removed) = (self.pods.values().cloned().collect(), self.removed.iter().cloned().collect());
        Some(PodSet { pods, removed })
    }

    /// The pod; the known one if it is of the same version.
    fn read(&self, raw: &RawObject) -> Option<Arc<ApiPod>> {
        let known = self.pods.get(&key(raw)).filter(|known| known.pod.uid.as_str() == raw.uid());
        let version = raw.meta().resource_version.as_deref();
        if let Some(known) = known.filter(|known| Some(known.resource_version.as_str()) == version) {
            return Some(Arc::clone(known));
        }
        let Some(pod) = ApiPod::read(raw) else {
            error!("pod {}/{} has the UID {:?} and is not run", raw.namespace(), raw.name(), raw.uid());
            return None;
        };
        report(&pod, known.map(|known| &known.definition));
        Some(Arc::new(pod))
    }
}

/// Logs what could not be read of a pod, once for each definition of it.
fn report(pod: &ApiPod, known: Option<&Definition>) {
    let before = known.map(findings).unwrap_or_default();
    for finding in findings(&pod.definition).into_iter().filter(|finding| !before.contains(finding)) {
        match &pod.definition {
            Definition::Read(_) => warn!("{finding}; the field is ignored"),
            Definition::Refused(_) => warn!("{finding}; this definition of the pod is refused"),
        }
    }
}

fn findings(definition: &Definition) -> Vec<String> {
    let findings = match definition {
        Definition::Read(object) => &object.warnings,
        Definition::Refused(findings) => findings,
    };
    findings.iter().map(ToString::to_string).collect()
}

fn key(raw: &RawObject) -> Key {
    (raw.namespace().to_owned(), raw.name().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(name: &str, version: u32) -> RawObject {
        let metadata = json!({"namespace": "shop", "name": name, "uid": format!("u-{name}"),
            "resourceVersion": version.to_string()});
        let spec = json!({"containers": [{"name": "a", "image": "i"}]});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn names(set: Option<PodSet>) -> Vec<String> {
        set.unwrap().pods.iter().map(|pod| pod.pod.name.clone()).collect()
    }

    #[test]
    fn a_list_that_is_not_complete_delivers_no_set_and_changes_none() {
        let mut store = PodStore::default();
        assert!(store.apply(&Event::Init).is_none());
        assert!(store.apply(&Event::InitApply(raw("a", 1))).is_none());
        // The list fails after its first page and starts again.
        assert!(store.apply(&Event::Init).is_none());
        assert!(store.apply(&Event::InitApply(raw("b", 2))).is_none());
        assert_eq!(names(store.apply(&Event::InitDone)), ["b"]);
        // A relist that does not end leaves the set as it is.
        store.apply(&Event::Init);
        assert_eq!(names(store.apply(&Event::Apply(raw("c", 3)))), ["b", "c"]);
    }

    #[test]
    fn a_relist_removes_what_it_does_not_name() {
        let mut store = PodStore::default();
        store.apply(&Event::InitApply(raw("a", 1)));
        store.apply(&Event::InitApply(raw("b", 1)));
        let before = store.apply(&Event::InitDone).unwrap();
        store.apply(&Event::Init);
        store.apply(&Event::InitApply(raw("b", 1)));
        let after = store.apply(&Event::InitDone).unwrap();
        assert_eq!(after.pods.len(), 1);
        assert!(Arc::ptr_eq(&before.pods[1], &after.pods[0]), "a pod of the same version is not read again");
        // A forced deletion: the pod was not seen as one that is being deleted.
        let forced = json!({
            "metadata": {"namespace": "shop", "name": "b", "uid": "u-b", "resourceVersion": "2",
                "deletionTimestamp": "2026-11-18T00:00:00Z", "deletionGracePeriodSeconds": 0},
            "spec": {"containers": [{"name": "a", "image": "i"}]},
        });
        let set = store.apply(&Event::Delete(serde_json::from_value(forced).unwrap())).unwrap();
        assert!(set.pods.is_empty());
        assert_eq!((set.last_grace("u-b"), set.last_grace("u-a")), (Some(std::time::Duration::ZERO), None));
    }
}
