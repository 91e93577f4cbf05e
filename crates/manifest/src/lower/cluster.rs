use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::CSIDriver;

use crate::object::{Object, Resource};

/// The objects that pods name, by their names.
#[derive(Debug, Default)]
pub struct Cluster<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a PersistentVolumeClaim>,
    volumes: BTreeMap<&'a str, &'a PersistentVolume>,
    bound: BTreeMap<(&'a str, &'a str), &'a PersistentVolume>,
    drivers: BTreeMap<&'a str, &'a CSIDriver>,
    classes: BTreeMap<&'a str, &'a RuntimeClass>,
}

impl<'a> Cluster<'a> {
    /// Those among these objects.
    #[must_use]
    pub fn of(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut cluster = Self::default();
        objects.into_iter().for_each(|object| cluster.add(object));
        cluster
    }

    fn add(&mut self, object: &'a Object) {
        match &object.resource {
            Resource::PersistentVolumeClaim(claim) => {
                self.claims.insert((object.namespace(), object.name()), claim);
            }
            Resource::PersistentVolume(volume) => {
                self.volumes.insert(object.name(), volume);
                if let Some(claim) = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref()) {
                    let namespace = claim.namespace.as_deref().unwrap_or("default");
                    self.bound.insert((namespace, claim.name.as_deref().unwrap_or_default()), volume);
                }
            }
            Resource::CsiDriver(driver) => {
                self.drivers.insert(object.name(), driver);
            }
            Resource::RuntimeClass(class) => {
                self.classes.insert(object.name(), class);
            }
            _ => {}
        }
    }

    /// The volume that a claim is bound to: the one it names, or the one that names it.
    pub(super) fn volume_of(&self, namespace: &str, claim: &str) -> Option<&'a PersistentVolume> {
        let named =
            self.claims.get(&(namespace, claim)).and_then(|c| c.spec.as_ref()?.volume_name.as_deref());
        match named.filter(|name| !name.is_empty()) {
            Some(name) => self.volumes.get(name).copied(),
            None => self.bound.get(&(namespace, claim)).copied(),
        }
    }

    /// Whether a driver says that it can mount with a context; nothing where we do not know it.
    pub(super) fn selinux_mount(&self, driver: &str) -> Option<bool> {
        self.drivers.get(driver)?.spec.se_linux_mount
    }

    /// The handler of a class. A class that we do not have is taken for a handler of its own name: a
    /// runtime that knows none so named refuses it.
    pub(super) fn handler(&self, class: &str) -> String {
        self.classes.get(class).map_or(class, |c| c.handler.as_str()).to_owned()
    }
}
