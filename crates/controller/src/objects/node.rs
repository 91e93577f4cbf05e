use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::meta::{resource, slim};

/// A Node.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NodeObject {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    runtime_handlers: Option<Vec<Handler>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Handler {
    features: Option<Features>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Features {
    user_namespaces: Option<bool>,
}

resource!(NodeObject, ClusterResourceScope, "", "Node", "nodes");

impl NodeObject {
    /// Whether one of its runtime handlers supports user namespaces.
    pub(crate) fn has_user_namespaces(&self) -> bool {
        let mut features =
            self.status.runtime_handlers.iter().flatten().filter_map(|one| one.features.as_ref());
        features.any(|features| features.user_namespaces == Some(true))
    }
}
