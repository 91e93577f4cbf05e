//! The desired pods of the manifests, and how they change.

use std::collections::{BTreeMap, BTreeSet};

use manifest::k8s_openapi::api::core::v1::Pod;
use manifest::{Object, Resource};

/// Namespace and name.
pub(crate) type Key = (String, String);

/// The desired pods, as of the last read of the manifests.
#[derive(Debug, Default)]
pub(crate) struct Desired(BTreeMap<Key, Pod>);

/// The changes in the manifests, in the order in which they are applied.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    /// Pods that are no longer in the manifests.
    pub(crate) removed: Vec<Key>,
    /// Pods that are new or have another definition.
    pub(crate) applied: Vec<&'a Object>,
    /// Duplicates: pods whose namespace and name another pod in the manifests has. The first one is used.
    pub(crate) doubled: Vec<&'a Object>,
}

impl Desired {
    /// Replaces the desired pods by those among these objects, and returns the changes.
    pub(crate) fn replace<'a>(&mut self, objects: &'a [Object]) -> Changes<'a> {
        let (mut now, mut changes, mut seen) = (BTreeMap::new(), Changes::default(), BTreeSet::new());
        for object in objects {
            let Resource::Pod(pod) = &object.resource else { continue };
            let key = (object.namespace().to_owned(), object.name().to_owned());
            if !seen.insert(key.clone()) {
                changes.doubled.push(object);
                continue;
            }
            if self.0.get(&key) != Some(&**pod) {
                changes.applied.push(object);
            }
            now.insert(key, (**pod).clone());
        }
        // New pods first, as in the kubelet.
        changes.applied.sort_by_key(|object| {
            self.0.contains_key(&(object.namespace().to_owned(), object.name().to_owned()))
        });
        changes.removed = self.0.keys().filter(|key| !now.contains_key(*key)).cloned().collect();
        self.0 = now;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Vec<Object> {
        manifest::read("x.yaml", text.as_bytes()).objects
    }

    fn pod(name: &str, image: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: {image}}}]}}\n"
        )
    }

    #[test]
    fn pods_that_go_come_and_change_are_told_apart() {
        let first = objects(&[pod("same", "i:1"), pod("gone", "i:1"), pod("other", "i:1")].concat());
        let mut desired = Desired::default();
        assert_eq!(desired.replace(&first).applied.len(), 3);
        let second = objects(
            &[pod("other", "i:2"), pod("same", "i:1"), pod("new", "i:1"), pod("new", "i:2")].concat(),
        );
        let changes = desired.replace(&second);
        assert_eq!(changes.removed, [("default".to_owned(), "gone".to_owned())]);
        let names = |list: &[&Object]| list.iter().map(|o| o.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&changes.applied), ["new", "other"]);
        assert_eq!(names(&changes.doubled), ["new"]);
        let again = desired.replace(&second);
        assert!(again.removed.is_empty() && again.applied.is_empty());
    }
}
