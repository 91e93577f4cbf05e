use agent::{ContainerView, RunningPod, StateView};
use ids::{HostSpan, IdKind, UserNamespace};
use plan::{HowLabelled, Idmap, MountPlan, UserNamespaceMode, Warning};
use serde::{Deserialize, Serialize};

use super::{IdSpace, LastProof};

/// The page of the agent: its node, with the pods that it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePage {
    /// When the data was taken.
    pub taken: u64,
    /// Another number whenever anything but `taken` is another: the page is loaded anew then. After a restart of the server it
    /// must not be one of before. It is below 2^53: a browser knows no larger numbers.
    pub revision: u64,
    /// The node's name.
    pub node: String,
    /// The host IDs.
    pub ids: IdSpace,
    /// The pods that run, by namespace and name.
    pub pods: Vec<NodePod>,
    /// The pods that cannot be started, by namespace and name.
    pub waiting: Vec<WaitingPod>,
    /// The last proof that no pod shares a host ID.
    pub proof: LastProof,
    /// What could not be read, a sentence each.
    pub problems: Vec<String>,
}

/// A pod that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    pub phase: String,
    /// Its runtime handler; empty for the default.
    pub handler: String,
    /// Where its IDs come from.
    pub user_namespace: UserNamespaceMode,
    /// Its host user IDs; `None` with the host's user namespace.
    pub uids: Option<HostSpan>,
    /// Its host group IDs.
    pub gids: Option<HostSpan>,
    /// The SELinux level that was leased with its block.
    pub level: Option<String>,
    /// The gate that is off and so keeps a user namespace from it.
    pub closed_gate: Option<String>,
    /// Why the plan is as it is, line by line.
    pub reasons: Vec<String>,
    /// Differences from what its author may expect.
    pub warnings: Vec<Warning>,
    /// What its containers see of its volumes.
    pub mounts: Vec<NodeMount>,
    /// Its containers, init containers first.
    pub containers: Vec<Container>,
    /// Its start, where this process has seen it.
    pub start: Option<StartTimes>,
}

/// What a container sees of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMount {
    /// The container.
    pub container: String,
    /// The volume.
    pub volume: String,
    /// The mount path.
    pub path: String,
    /// The block that owners are mapped to.
    pub idmap: Idmap,
    /// How it gets its label.
    pub how: HowLabelled,
    /// The label, where it is known before the runtime picks it.
    pub context: Option<String>,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: bool,
    /// Its mount propagation.
    pub propagation: String,
    /// The reason.
    pub why: String,
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its name.
    pub name: String,
    /// What it does: `running`, or the reason why it waits or has ended.
    pub state: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: u32,
}

/// The times of a pod's start, in milliseconds since it was first seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartTimes {
    /// Its steps, in the order of their begins. Some run beside others.
    pub steps: Vec<StartStep>,
    /// When it ran; `None` while it starts.
    pub runs: Option<u64>,
}

/// A step of a pod's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartStep {
    /// What is done: `host IDs`, `sandbox`.
    pub name: String,
    /// The container that it is done for; empty for the pod.
    pub container: String,
    /// When it began.
    pub begin: u64,
    /// How long it took; `None` while it is under way.
    pub took: Option<u64>,
}

/// A pod that is bound to the node and cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The reason, as in its event.
    pub reason: String,
    /// Why it cannot be started, and what to do.
    pub message: String,
    /// Since when it cannot be started for this reason.
    pub since: u64,
}

impl From<&RunningPod> for NodePod {
    fn from(pod: &RunningPod) -> Self {
        let plan = pod.plan.as_ref();
        let of_users = match pod.users {
            UserNamespace::Host => UserNamespaceMode::Host,
            UserNamespace::Leased { .. } | UserNamespace::Caller(_) => UserNamespaceMode::Own,
        };
        let span = |kind| pod.users.lines(kind).and_then(|lines| lines.first().map(|line| line.host()));
        let status = pod.status.as_ref();
        let containers = status.into_iter().flat_map(|status| status.all_containers().map(container));
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.as_str().to_owned(),
            phase: status.map_or_else(|| "Pending".to_owned(), |status| status.phase.clone()),
            handler: pod.handler.clone(),
            user_namespace: plan.map_or(of_users, |plan| plan.user_namespace.mode),
            uids: span(IdKind::Uid),
            gids: span(IdKind::Gid),
            level: pod.level.clone(),
            closed_gate: plan.and_then(|plan| plan.closed_gate).map(|gate| gate.name().to_owned()),
            reasons: plan.map(|plan| plan.reasons.clone()).unwrap_or_default(),
            warnings: plan.map(|plan| plan.warnings.clone()).unwrap_or_default(),
            mounts: plan.into_iter().flat_map(|plan| plan.mounts.iter().map(mount)).collect(),
            containers: containers.collect(),
            start: pod.start.as_ref().map(start),
        }
    }
}

fn mount(mount: &MountPlan) -> NodeMount {
    NodeMount {
        container: mount.container.clone(),
        volume: mount.volume.clone(),
        path: mount.path.clone(),
        idmap: mount.idmap,
        how: mount.label.how,
        context: mount.label.context.as_ref().map(ToString::to_string),
        read_only: mount.read_only,
        recursive_read_only: mount.recursive_read_only,
        propagation: mount.propagation.name().to_owned(),
        why: mount.why.clone(),
    }
}

fn container(view: &ContainerView) -> Container {
    let state = match &view.state {
        StateView::Running { .. } => "running".to_owned(),
        StateView::Waiting { reason, .. } => reason.clone(),
        StateView::Terminated(exit) => format!("{}, exit code {}", exit.reason, exit.code),
    };
    Container { name: view.name.clone(), state, ready: view.ready, restarts: view.restarts }
}

fn start(times: &agent::StartTimes) -> StartTimes {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let step = |step: &agent::StartStep| StartStep {
        name: step.kind.name().to_owned(),
        container: step.container.clone(),
        begin: millis(step.begin),
        took: step.took.map(millis),
    };
    StartTimes { steps: times.steps.iter().map(step).collect(), runs: times.runs.map(millis) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_fewer_fields_is_read_with_the_defaults_of_the_others() {
        let text = r#"{"node": "n1", "pods": [{"namespace": "shop", "name": "web", "uid": "u-1", "phase": "Running",
            "handler": "", "userNamespace": "own", "uids": {"hostId": 65536, "length": 65536},
            "gids": {"hostId": 65536, "length": 65536}, "level": null, "closedGate": null, "reasons": [], "warnings": [],
            "mounts": [], "containers": [], "start": null}], "proof": "none"}"#;
        let page: NodePage = serde_json::from_str(text).unwrap();
        assert_eq!(page.pods[0].user_namespace, UserNamespaceMode::Own);
        let again = serde_json::from_str::<NodePage>(&serde_json::to_string(&page).unwrap()).unwrap();
        assert_eq!(again, page);
    }
}
