use std::path::PathBuf;

use agent::{ContainerView, StateView};
use serde_json::Value;

/// The pods of this node. The methods may read files: they are called where they may block.
pub trait Pods: Send + Sync {
    /// All pods that are known from any source, each as JSON without `apiVersion` and `kind`.
    fn list(&self) -> Vec<Value>;

    /// The pods with a container that runs, each as JSON with the names and images of these containers alone.
    fn running(&self) -> Vec<Value>;

    /// The pod of this name; `None` if no source has it.
    fn find(&self, namespace: &str, name: &str) -> Option<ServedPod>;
}

/// A pod, as far as the API needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedPod {
    /// Its UID, as the runtime knows it.
    pub uid: String,
    /// The UID of the mirror pod that shows it, for a static pod.
    pub mirror_uid: Option<String>,
    /// Its containers of every kind, as in its spec.
    pub containers: Vec<ServedContainer>,
    /// The statuses of its containers; empty before it is started.
    pub statuses: Vec<ContainerView>,
    /// The directory of its containers' logs.
    pub logs: PathBuf,
}

/// A container, as far as the API needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedContainer {
    /// Its name.
    pub name: String,
    /// Whether its first process has a terminal.
    pub tty: bool,
}

impl ServedPod {
    /// Whether this is one of its UIDs.
    pub(crate) fn has_uid(&self, uid: &str) -> bool {
        self.uid == uid || self.mirror_uid.as_deref() == Some(uid)
    }

    /// Its container of this name.
    pub(crate) fn container(&self, name: &str) -> Option<&ServedContainer> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// The runtime's ID of a container while it runs.
    pub(crate) fn running_id(&self, name: &str) -> Option<&str> {
        let status = self.statuses.iter().find(|status| status.name == name)?;
        let is_running = matches!(status.state, StateView::Running { .. });
        status.instance.as_ref().filter(|_| is_running).map(|instance| instance.id.as_str())
    }
}
