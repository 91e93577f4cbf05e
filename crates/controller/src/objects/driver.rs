use conflicts::CsiDriver;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::meta::{name, resource, slim};

/// A CSIDriver.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DriverObject {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: DriverSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DriverSpec {
    se_linux_mount: Option<bool>,
}

resource!(DriverObject, ClusterResourceScope, "storage.k8s.io", "CSIDriver", "csidrivers");

impl DriverObject {
    /// The driver as the conflict engine takes it.
    pub(crate) fn driver(&self) -> CsiDriver {
        let selinux_mount = self.spec.se_linux_mount == Some(true);
        CsiDriver { name: name(&self.metadata).to_owned(), selinux_mount }
    }
}
