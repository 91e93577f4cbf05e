//! The pods that a kubelet has left in the runtime, by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use types::PodUid;

type Key = (String, String);

/// The pods that a kubelet has left in the runtime, by namespace and name, until one of the name is started here.
#[derive(Debug, Default)]
pub(crate) struct LeftPods(Mutex<BTreeMap<Key, BTreeSet<PodUid>>>);

impl LeftPods {
    fn pods(&self) -> MutexGuard<'_, BTreeMap<Key, BTreeSet<PodUid>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a pod that a kubelet has left.
    pub(crate) fn add(&self, namespace: &str, name: &str, uid: PodUid) {
        self.pods().entry((namespace.to_owned(), name.to_owned())).or_default().insert(uid);
    }

    /// Those of this name with another UID.
    pub(crate) fn others(&self, namespace: &str, name: &str, uid: Option<&str>) -> Vec<PodUid> {
        let pods = self.pods();
        let named = pods.get(&(namespace.to_owned(), name.to_owned())).into_iter().flatten();
        named.filter(|other| Some(other.as_str()) != uid).cloned().collect()
    }

    pub(crate) fn remove(&self, namespace: &str, name: &str, uid: &PodUid) {
        let mut pods = self.pods();
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(named) = pods.get_mut(&key) {
            named.remove(uid);
            if named.is_empty() {
                pods.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_one_name_and_another_uid_are_found_until_they_are_removed() {
        let uid = |text: &str| PodUid::new(text).unwrap();
        let left = LeftPods::default();
        left.add("kube-system", "etcd-node", uid("kubelets"));
        left.add("shop", "web", uid("same"));
        assert_eq!(left.others("kube-system", "etcd-node", Some("ours")), [uid("kubelets")]);
        assert_eq!(left.others("shop", "web", Some("same")), []);
        assert_eq!(left.others("shop", "web", None), [uid("same")]);
        left.remove("kube-system", "etcd-node", &uid("kubelets"));
        assert_eq!(left.others("kube-system", "etcd-node", Some("ours")), []);
    }
}
