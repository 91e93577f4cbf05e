use std::fmt;

use crate::moment::Moment;
use crate::observed::ConditionStatus;
use crate::pod::Role;
use crate::status::{ContainerState, ContainerStatus, Phase};
use crate::turn::Turn;

/// A condition that the node sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionKind {
    /// The pod is on a node.
    PodScheduled,
    /// There is a sandbox with a network.
    PodReadyToStartContainers,
    /// The init containers are done and the sidecars up.
    Initialized,
    /// All containers are ready.
    ContainersReady,
    /// The pod is ready, its readiness gates included.
    Ready,
    /// The node evicts the pod.
    DisruptionTarget,
}

impl fmt::Display for ConditionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: ConditionKind,
    /// Its status.
    pub status: ConditionStatus,
    /// The reason, by Kubernetes' names; may be empty.
    pub reason: &'static str,
    /// The message; may be empty.
    pub message: String,
    /// Since when it has this status.
    pub since: Moment,
}

/// The status of a condition with its reason and message.
struct Finding(ConditionStatus, &'static str, String);

impl Finding {
    const HOLDS: Self = Self(ConditionStatus::True, "", String::new());

    const fn fails(reason: &'static str, message: String) -> Self {
        Self(ConditionStatus::False, reason, message)
    }
}

type Statuses<'a> = &'a [(Role, ContainerStatus)];

impl Turn<'_> {
    pub(crate) fn conditions(&mut self, all: Statuses<'_>, phase: Phase) -> Vec<Condition> {
        let sandbox = match self.good_sandbox() {
            Some(_) => Finding::HOLDS,
            None => Finding::fails("PodSandboxNotReady", self.sandbox_fault().to_owned()),
        };
        let mut found = vec![
            (ConditionKind::PodScheduled, Finding::HOLDS),
            (ConditionKind::PodReadyToStartContainers, sandbox),
            (ConditionKind::Initialized, initialized(all, phase)),
            (ConditionKind::ContainersReady, containers_ready(all, phase)),
            (ConditionKind::Ready, self.ready(all, phase)),
        ];
        if let Some(eviction) = self.pod.eviction() {
            let finding = Finding(ConditionStatus::True, "TerminationByKubelet", eviction.message.clone());
            found.push((ConditionKind::DisruptionTarget, finding));
        }
        let dated = found.into_iter().map(|(kind, Finding(status, reason, message))| {
            let since = self.transition(kind, status);
            Condition { kind, status, reason, message, since }
        });
        dated.collect()
    }

    fn ready(&self, all: Statuses<'_>, phase: Phase) -> Finding {
        let containers = containers_ready(all, phase);
        if containers.0 != ConditionStatus::True {
            return containers;
        }
        let gates = self.pod.spec().readiness_gates.iter();
        let closed = gates.filter_map(|gate| match self.observed.conditions.get(gate) {
            Some(ConditionStatus::True) => None,
            Some(status) => {
                Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {status:?}"))
            }
            None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
        });
        let closed: Vec<String> = closed.collect();
        if closed.is_empty() {
            return Finding::HOLDS;
        }
        Finding::fails("ReadinessGatesNotReady", closed.join(", "))
    }

    /// Why no sandbox is usable, in the kubelet's words.
    fn sandbox_fault(&self) -> &'static str {
        let sandboxes = &self.observed.sandboxes;
        let Some(newest) = sandboxes.iter().max_by_key(|sandbox| sandbox.attempt) else {
            return "no pod sandbox exists";
        };
        if sandboxes.iter().filter(|sandbox| sandbox.ready).count() > 1 {
            "multiple pod sandboxes are ready and need to be reconciled"
        } else if !newest.ready {
            "pod sandbox is not ready"
        } else if newest.network != self.pod.spec().network {
            "network namespace mode changed and sandbox needs to be recreated"
        } else {
            "pod sandbox has no IP address"
        }
    }
}

fn initialized(all: Statuses<'_>, phase: Phase) -> Finding {
    if phase == Phase::Succeeded {
        return Finding(ConditionStatus::True, "PodCompleted", String::new());
    }
    let has_begun = |(role, status): &(Role, ContainerStatus)| {
        *role == Role::Regular && !matches!(status.state, ContainerState::Waiting { .. })
    };
    if all.iter().any(has_begun) {
        return Finding::HOLDS;
    }
    let incomplete = names(all, |role, status| match role {
        Role::Init => !status.ready,
        Role::Sidecar => !status.started,
        Role::Regular | Role::Ephemeral => false,
    });
    if incomplete.is_empty() {
        return Finding::HOLDS;
    }
    let message = format!("containers with incomplete status: [{incomplete}]");
    Finding::fails("ContainersNotInitialized", message)
}

fn containers_ready(all: Statuses<'_>, phase: Phase) -> Finding {
    match phase {
        Phase::Succeeded => return Finding::fails("PodCompleted", String::new()),
        Phase::Failed => return Finding::fails("PodFailed", String::new()),
        Phase::Pending | Phase::Running => {}
    }
    let unready = names(all, |role, status| matches!(role, Role::Sidecar | Role::Regular) && !status.ready);
    if unready.is_empty() {
        return Finding::HOLDS;
    }
    Finding::fails("ContainersNotReady", format!("containers with unready status: [{unready}]"))
}

fn names(all: Statuses<'_>, is_meant: impl Fn(Role, &ContainerStatus) -> bool) -> String {
    let meant = all.iter().filter(|(role, status)| is_meant(*role, status));
    meant.map(|(_, status)| status.name.as_str()).collect::<Vec<_>>().join(" ")
}
