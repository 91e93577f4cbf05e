//! The desired pods of the manifests, and how they change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use manifest::k8s_openapi::api::core::v1::Pod;
use manifest::{Object, Resource};

/// Namespace and name.
pub type Key = (String, String);

/// The desired pods, as of the last read of the manifests, each with its file.
#[derive(Debug, Default)]
pub struct Desired(BTreeMap<Key, (Arc<str>, Pod)>);

/// The changes in the manifests, in the order in which they are applied.
#[derive(Debug, Default)]
pub struct Changes<'a> {
    /// Pods that are no longer in the manifests.
    pub removed: Vec<Key>,
    /// Pods that are new or have another definition.
    pub applied: Vec<&'a Object>,
    /// Pods of the same namespace and name as one that runs from another file, or as one before them.
    pub doubled: Vec<&'a Object>,
}

impl Desired {
    /// Replaces the desired pods by those among these objects, and returns the changes.
    pub fn replace<'a>(&mut self, objects: &'a [Object]) -> Changes<'a> {
        let (mut now, mut changes, mut seen) = (BTreeMap::new(), Changes::default(), BTreeSet::new());
        let mut objects: Vec<&Object> = objects.iter().collect();
        objects.sort_by_key(|o| self.0.get(&key(o)).is_some_and(|(file, _)| *file != o.file));
        for object in objects {
            let Resource::Pod(pod) = &object.resource else { continue };
            let key = key(object);
            if !seen.insert(key.clone()) {
                changes.doubled.push(object);
                continue;
            }
            if self.0.get(&key).map(|(_, known)| known) != Some(&**pod) {
                changes.applied.push(object);
            }
            now.insert(key, (Arc::clone(&object.file), (**pod).clone()));
        }
        // New pods first, as in the kubelet.
        changes.applied.sort_by_key(|object| self.0.contains_key(&key(object)));
        changes.removed = self.0.keys().filter(|key| !now.contains_key(*key)).cloned().collect();
        self.0 = now;
        changes
    }
}

fn key(object: &Object) -> Key {
    (object.namespace().to_owned(), object.name().to_owned())
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

    #[test]
    fn a_pod_that_runs_keeps_its_name_whatever_the_order_of_the_files() {
        let of = |file: &str, image: &str| manifest::read(file, pod("web", image).as_bytes()).objects;
        let mut desired = Desired::default();
        let (ours, new) = (of("50-web.yaml", "i:1"), of("10-other.yaml", "i:2"));
        desired.replace(&ours);
        let both = [new.clone(), ours].concat();
        let changes = desired.replace(&both);
        assert!(changes.applied.is_empty() && changes.removed.is_empty());
        assert_eq!(&*changes.doubled[0].file, "10-other.yaml");
        assert_eq!(desired.replace(&new).applied.len(), 1);
    }
}
