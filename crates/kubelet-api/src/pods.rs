use std::path::PathBuf;

use agent::ContainerView;
use serde_json::Value;

/// The pods of this node. The methods may read files: they are called where they may block.
pub trait Pods: Send + Sync {
    /// All pods that are known from any source, each as JSON without `apiVersion` and `kind`.
    fn list(&self) -> Vec<Value>;

    /// The pod of this name; `None` if no source has it.
    fn find(&self, namespace: &str, name: &str) -> Option<ServedPod>;
}

/// A pod, as far as the API needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedPod {
    /// The names of its containers of every kind, as in its spec.
    pub containers: Vec<String>,
    /// The statuses of its containers; empty before it is started.
    pub statuses: Vec<ContainerView>,
    /// The directory of its containers' logs.
    pub logs: PathBuf,
}
