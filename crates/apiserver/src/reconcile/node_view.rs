//! The node, as the admission of pods sees it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use admission::kubelet::{NodeCondition, NodeFacts};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::warn;

use crate::node::{NodeSettings, NodeState, NotReady, new_node};

/// Exists where the kernel has AppArmor; `Y` if it is enabled.
const APPARMOR: &str = "sys/module/apparmor/parameters/enabled";
/// How long the API server may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// What the admission of pods knows about the node.
pub struct NodeView {
    /// What the operator sets about the node.
    pub settings: NodeSettings,
    /// The machine, its runtime and its conditions.
    pub state: watch::Receiver<NodeState>,
    /// The Node in the API and the client to read it with; `None` for a node that only has static pods.
    pub cluster: Option<NodeInApi>,
    /// Sysctls that pods may set besides the safe ones.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Whether AppArmor is enabled: [`is_apparmor_enabled`].
    pub apparmor: bool,
}

/// The Node in the API.
pub struct NodeInApi {
    /// The client to read it with.
    pub client: Client,
    /// The Node as it was seen last.
    pub seen: watch::Receiver<Option<Arc<Node>>>,
}

/// Whether the kernel enforces AppArmor profiles.
#[must_use]
pub fn is_apparmor_enabled(host_root: &Path) -> bool {
    std::fs::read_to_string(host_root.join(APPARMOR)).is_ok_and(|text| text.trim() == "Y")
}

impl NodeView {
    /// The node as it is known now: as the API has it, else as it will be registered.
    pub(super) fn facts(&self) -> NodeFacts {
        let seen = self.cluster.as_ref().and_then(|cluster| cluster.seen.borrow().clone());
        let is_complete =
            |node: &Node| node.status.as_ref().is_some_and(|status| status.allocatable.is_some());
        match seen.filter(|node| is_complete(node)) {
            Some(node) => self.facts_of(&node),
            None => self.facts_of(&new_node(&self.settings, &self.state.borrow(), Timestamp::UNIX_EPOCH)),
        }
    }

    pub(super) fn facts_of(&self, node: &Node) -> NodeFacts {
        let state = self.state.borrow();
        let conditions = &state.conditions;
        let pressure = [
            (conditions.memory_pressure, NodeCondition::MemoryPressure),
            (conditions.disk_pressure, NodeCondition::DiskPressure),
            (conditions.pid_pressure, NodeCondition::PidPressure),
        ];
        let runtime = state.facts.runtime.as_ref();
        NodeFacts {
            supplemental_groups_policy: runtime.is_some_and(|runtime| runtime.supplemental_groups_policy),
            apparmor: self.apparmor,
            pressure: pressure.into_iter().filter(|(is_on, _)| *is_on).map(|(_, which)| which).collect(),
            is_shutting_down: conditions.not_ready.contains(&NotReady::ShuttingDown),
            allowed_unsafe_sysctls: self.allowed_unsafe_sysctls.clone(),
            ..NodeFacts::of(node)
        }
    }

    /// Reads the Node from the API server: labels may be newer than what was seen. `None` if there is no answer.
    pub(super) async fn read(&self) -> Option<Node> {
        let cluster = self.cluster.as_ref()?;
        let api: Api<Node> = Api::all(cluster.client.clone());
        match tokio::time::timeout(DEADLINE, api.get(&self.settings.name)).await {
            Ok(Ok(node)) => Some(node),
            Ok(Err(error)) => {
                warn!("cannot read node {}: {error}", self.settings.name);
                None
            }
            Err(_) => None,
        }
    }
}
