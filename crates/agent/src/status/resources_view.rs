//! Resources, as the status of a pod has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Amounts by resource, as the API server writes them.
pub type WrittenAmounts = BTreeMap<String, String>;

/// Requests and limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourcesView {
    /// What is limited; `None` if nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<WrittenAmounts>,
    /// What is requested; `None` if nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<WrittenAmounts>,
}

/// The resources of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourcesView {
    /// In effect; those of its definition while it does not run.
    pub in_effect: ResourcesView,
    /// The requests that admission has counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<WrittenAmounts>,
}

/// A resize of a pod, as a condition of it tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizeView {
    /// The generation of the spec that asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Why it is not done, as Kubernetes names it; empty while it is under way.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when: milliseconds since 1970.
    pub since: u64,
}

/// The resources in a pod's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesStatus {
    /// Those of the pod in effect.
    pub pod: ResourcesView,
    /// What admission has counted for the pod.
    pub allocated: WrittenAmounts,
    /// Those of its containers, by name.
    pub containers: BTreeMap<String, ContainerResourcesView>,
    /// The resize that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<ResizeView>,
    /// A resize that the spec asks for and that is not allocated. The pod's worker does not know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<ResizeView>,
}
