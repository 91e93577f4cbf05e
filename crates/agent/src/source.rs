//! The objects that pods name: ConfigMaps and Secrets, as files or an API server have them now.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use manifest::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use manifest::{Object, Resource};
use volumes::payload;

type Key = (String, String);

/// ConfigMaps and Secrets by namespace and name. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Objects(Arc<RwLock<Held>>);

#[derive(Debug, Default)]
struct Held {
    config_maps: BTreeMap<Key, payload::ConfigMap>,
    secrets: BTreeMap<Key, payload::Secret>,
}

impl Objects {
    /// Those among what was read.
    #[must_use]
    pub fn of(objects: &[Object]) -> Self {
        let all = Self::default();
        all.replace(objects);
        all
    }

    /// From now on, those among what was read; the ones before are forgotten.
    pub fn replace(&self, objects: &[Object]) {
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
        match self.0.write() {
            Ok(mut all) => *all = held,
            Err(poisoned) => *poisoned.into_inner() = held,
        }
    }

    pub(crate) fn config_map(&self, namespace: &str, name: &str) -> Option<payload::ConfigMap> {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.read().ok()?.config_maps.get(&key).cloned()
    }

    pub(crate) fn secret(&self, namespace: &str, name: &str) -> Option<payload::Secret> {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.read().ok()?.secrets.get(&key).cloned()
    }
}

fn config_map(map: &ConfigMap) -> payload::ConfigMap {
    let binary = map.binary_data.iter().flatten();
    payload::ConfigMap {
        data: map.data.clone().unwrap_or_default(),
        binary_data: binary.map(|(key, bytes)| (key.clone(), bytes.0.clone())).collect(),
    }
}

/// What is in stringData is in the data, too, and comes last.
fn secret(secret: &Secret) -> payload::Secret {
    let data = secret.data.iter().flatten().map(|(key, bytes)| (key.clone(), bytes.0.clone()));
    let texts = secret.string_data.iter().flatten();
    payload::Secret { data: data.chain(texts.map(|(k, v)| (k.clone(), v.clone().into_bytes()))).collect() }
}
