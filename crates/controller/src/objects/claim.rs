use conflicts::{Claim, ClaimKey};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::meta::{name, namespace, resource, slim};

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ClaimObject {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: ClaimSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSpec {
    pub(crate) volume_name: Option<String>,
    pub(crate) storage_class_name: Option<String>,
    pub(crate) volume_mode: Option<String>,
}

resource!(ClaimObject, NamespaceResourceScope, "", "PersistentVolumeClaim", "persistentvolumeclaims");

impl ClaimObject {
    pub(crate) fn key(&self) -> ClaimKey {
        ClaimKey::new(namespace(&self.metadata), name(&self.metadata))
    }

    /// The claim as the conflict engine takes it.
    pub(crate) fn claim(&self) -> Claim {
        let volume = self.spec.volume_name.clone().filter(|name| !name.is_empty());
        Claim { key: self.key(), uid: self.metadata.uid.clone(), volume }
    }
}
