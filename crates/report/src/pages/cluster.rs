use check::{Conflict, Fix, Problem, Summary, Volume, Workload};
use serde::{Deserialize, Serialize};

use super::Scope;

/// The page of the controller: a whole cluster, or what a reader of some namespaces may see of it
/// ([`ClusterPage::seen_from`]).
///
/// Lists may be cut where they are long; [`left_out`](Self::left_out) says how much is not in them. A page with 5 000
/// conflicts on as many volumes stays usable: its rows fetch their content when they are opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPage {
    /// When the data was taken.
    pub taken: u64,
    /// Another number whenever anything but `taken` is another: the page is loaded anew then. It need not be the next one, and
    /// after a restart of the server it must not be one of before. It is below 2^53: a browser knows no larger numbers.
    pub revision: u64,
    /// What the cluster is called, for the title; empty where that is not known.
    pub cluster: String,
    /// The version of its API server, `1.37.1`; empty where that is not known.
    pub kubernetes: String,
    /// Whether the data follows the API server.
    pub watch: Watch,
    /// Which namespaces its reader may see.
    pub scope: Scope,
    /// Workloads, conflicts and what the next upgrade breaks, in numbers.
    pub summary: Summary,
    /// Whether nodes can run pods in user namespaces.
    pub nodes: NodeReadiness,
    /// Whether volumes can be mounted with SELinux labels.
    pub selinux: SelinuxReadiness,
    /// Workloads with their verdicts on user namespaces; those that are blocked or risky at least.
    pub workloads: Vec<Workload>,
    /// Volumes in conflict with their users, which are pods (kind `Pod`) or workloads.
    pub volumes: Vec<Volume>,
    /// What conflicts, each once, on volumes of this page.
    pub conflicts: Vec<Conflict>,
    /// What settles the conflicts of a volume.
    pub fixes: Vec<Fix>,
    /// How the numbers have changed, the oldest first.
    pub trend: Vec<TrendPoint>,
    /// What cannot be read: kinds that the API server does not let the controller list, objects that are not understood.
    pub problems: Vec<Problem>,
    /// What is taken for granted.
    pub notes: Vec<String>,
    /// What the lists do not have.
    pub left_out: LeftOut,
}

/// Whether the data of a page follows the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Watch {
    /// The first complete lists have not arrived yet: the numbers are too low.
    #[default]
    Syncing,
    /// It does.
    Live,
    /// It does no more.
    Stale {
        /// Since when.
        since: u64,
        /// Why.
        cause: String,
    },
}

/// Nodes by whether they can run pods in user namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeReadiness {
    /// How many can.
    pub able: u64,
    /// How many cannot.
    pub unable: u64,
    /// Of how many it is not known.
    pub unknown: u64,
    /// Nodes that cannot, with the cause.
    pub causes: Vec<NodeCause>,
}

/// Why a node cannot run pods in user namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCause {
    /// The node.
    pub node: String,
    /// Why it cannot.
    pub cause: String,
}

/// Volumes and conflicts, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelinuxReadiness {
    /// Whether nodes mount all volumes with labels (the gate `SELinuxMount`); `None` where that is not known.
    pub mount_gate: Option<bool>,
    /// Volumes that more than one pod uses.
    pub shared_volumes: u64,
    /// Volumes with a conflict.
    pub contested_volumes: u64,
    /// Conflicts of pods that are on one node.
    pub on_one_node: u64,
    /// Conflicts of pods that can both have the volume on one node only.
    pub must_meet: u64,
    /// Conflicts of pods that may meet on a node.
    pub may_meet: u64,
    /// Conflicts of pods that never meet.
    pub cannot_meet: u64,
    /// CSI drivers, by name.
    pub drivers: Vec<DriverReadiness>,
}

/// Whether a CSI driver mounts volumes with labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverReadiness {
    /// The name of the CSIDriver.
    pub name: String,
    /// Its `seLinuxMount`.
    pub mounts_with_label: bool,
    /// How many volumes it has.
    pub volumes: u64,
    /// How many of them are in conflict.
    pub contested: u64,
}

/// The numbers at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrendPoint {
    /// When.
    pub time: u64,
    /// Conflicts but those of pods that never meet.
    pub conflicts: u64,
    /// Conflicts of pods that are on one node.
    pub on_one_node: u64,
    /// Workloads that cannot have a user namespace.
    pub blocked: u64,
    /// Workloads in a user namespace of their own.
    pub isolated: u64,
}

/// What is not in the lists of a page because they are long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeftOut {
    /// Workloads.
    pub workloads: u64,
    /// Volumes in conflict, with all of their conflicts.
    pub volumes: u64,
    /// Conflicts on volumes that are in the list.
    pub conflicts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_fewer_fields_is_read_with_the_defaults_of_the_others() {
        let page: ClusterPage = serde_json::from_str(r#"{"taken": 5, "watch": {"state": "live"}}"#).unwrap();
        assert_eq!(page, ClusterPage { taken: 5, watch: Watch::Live, ..ClusterPage::default() });
        let text = serde_json::to_string(&page).unwrap();
        assert_eq!(serde_json::from_str::<ClusterPage>(&text).unwrap(), page);
    }
}
