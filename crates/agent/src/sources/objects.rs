//! The objects that pods reference: the current ConfigMaps and Secrets of files or of an API server.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use manifest::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use manifest::{Object, Resource};
use volumes::payload;

use crate::error::Result;
use crate::ports::ObjectStore;

type Key = (String, String);

/// ConfigMaps and Secrets by namespace and name. Clones share the objects.
#[derive(Debug, Clone, Default)]
pub struct Objects(Arc<RwLock<Held>>);

#[derive(Debug, Default, PartialEq)]
struct Held {
    config_maps: BTreeMap<Key, payload::ConfigMap>,
    secrets: BTreeMap<Key, payload::Secret>,
}

impl Objects {
    /// The ConfigMaps and Secrets among these objects.
    #[must_use]
    pub fn of(objects: &[Object]) -> Self {
        let all = Self::default();
        all.replace(objects);
        all
    }

    /// Replaces all objects by the ConfigMaps and Secrets among these. Returns whether anything has changed.
    pub fn replace(&self, objects: &[Object]) -> bool {
        let mut held = Held::default();
        for object in objects {
            let key = (object.namespace().to_owned(), object.name().to_owned());
            match &object.resource {
                Resource::ConfigMap(map) => {
                    held.config_maps.insert(key, config_map(map));
                }
                Resource::Secret(found) => {
                    held.secrets.insert(key, secret(found));
                }
                _ => {}
            }
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = *all != held;
        *all = held;
        is_other
    }
}

impl ObjectStore for Objects {
    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<payload::ConfigMap>> {
        let key = (namespace.to_owned(), name.to_owned());
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).config_maps.get(&key).cloned())
    }

    fn secret(&self, namespace: &str, name: &str) -> Result<Option<payload::Secret>> {
        let key = (namespace.to_owned(), name.to_owned());
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).secrets.get(&key).cloned())
    }
}

fn config_map(map: &ConfigMap) -> payload::ConfigMap {
    let binary = map.binary_data.iter().flatten();
    payload::ConfigMap {
        data: map.data.clone().unwrap_or_default(),
        binary_data: binary.map(|(key, bytes)| (key.clone(), bytes.0.clone())).collect(),
    }
}

/// Converts a Secret. Keys of stringData override those of data, as in the API.
fn secret(secret: &Secret) -> payload::Secret {
    let data = secret.data.iter().flatten().map(|(key, bytes)| (key.clone(), bytes.0.clone()));
    let texts = secret.string_data.iter().flatten();
    let data = data.chain(texts.map(|(k, v)| (k.clone(), v.clone().into_bytes()))).collect();
    payload::Secret { uid: String::new(), data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_changed_are_told_from_those_that_were_only_read_again() {
        let read = |colour: &str| {
            let text = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata: {{colour: {colour}}}\n"
            );
            manifest::read("x.yaml", text.as_bytes()).objects
        };
        let objects = Objects::of(&read("green"));
        assert!(!objects.replace(&read("green")));
        assert!(objects.replace(&read("red")));
        let found = objects.config_map("default", "x").unwrap().unwrap();
        assert_eq!(found.data["colour"], "red");
        assert!(objects.config_map("other", "x").unwrap().is_none());
    }
}
