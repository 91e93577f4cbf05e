//! What is said of a pod, as it is written down and shown.

use lifecycle::{
    Condition, ConditionKind, ConditionStatus, ContainerName, ContainerState, ContainerStatus, Exit, Moment,
    Phase, Stage, Status,
};
use serde::{Deserialize, Serialize};

/// A pod's status; what a process that comes later goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    pub phase: String,
    /// `Syncing`, `Terminating` or `Terminated`.
    pub stage: String,
    /// Why, if the node ended it.
    pub reason: Option<String>,
    /// The same in words; or what keeps it from starting.
    pub message: Option<String>,
    /// Since when the node has it: milliseconds since 1970.
    pub started: u64,
    /// Its addresses.
    pub ips: Vec<String>,
    /// Its conditions.
    pub conditions: Vec<ConditionView>,
    /// Its init containers and sidecars.
    pub init: Vec<ContainerView>,
    /// Its regular containers.
    pub containers: Vec<ContainerView>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionView {
    /// Which.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when: milliseconds since 1970.
    pub since: u64,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: StateView,
    /// How the instance before ended.
    pub last: Option<ExitView>,
    /// Whether it takes work; for an init container, whether it is done.
    pub ready: bool,
    /// Whether it has come up.
    pub started: bool,
    /// How often it was started again.
    pub restarts: u32,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StateView {
    /// It is to be started.
    Waiting {
        /// Kubernetes' word.
        reason: String,
        /// In words.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when: milliseconds since 1970.
        since: u64,
    },
    /// It has ended.
    Terminated(ExitView),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitView {
    /// Its exit code.
    pub code: i32,
    /// Kubernetes' word.
    pub reason: String,
    /// Its last words.
    pub message: String,
    /// When it was started, if it was.
    pub started: Option<u64>,
    /// When it ended.
    pub finished: u64,
}

impl PodStatus {
    pub(crate) fn new(status: &Status, ips: Vec<String>) -> Self {
        let views = |list: &[ContainerStatus]| list.iter().map(ContainerView::new).collect();
        Self {
            phase: format!("{:?}", status.phase),
            stage: format!("{:?}", status.stage),
            reason: status.reason.clone(),
            message: status.message.clone(),
            started: status.started.millis(),
            ips,
            conditions: status.conditions.iter().map(ConditionView::new).collect(),
            init: views(&status.init),
            containers: views(&status.containers),
        }
    }

    /// Whether nothing of the pod runs and nothing will.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.stage == "Terminated"
    }

    /// Whether every container that is to run does, or the pod has ended.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.phase != "Pending"
    }

    /// The pod's exit code: of the first container that failed, init containers first; 0 if the pod has not,
    /// whatever a sidecar said when it was told to go.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        if self.phase == "Succeeded" {
            return 0;
        }
        let ended = self.init.iter().chain(&self.containers).filter_map(ContainerView::exit);
        let first = ended.map(|exit| exit.code).find(|code| *code != 0);
        first.unwrap_or(i32::from(self.phase == "Failed"))
    }

    /// The status that `lifecycle` goes on from.
    pub(crate) fn resumed(&self) -> Status {
        let statuses = |list: &[ContainerView]| list.iter().filter_map(ContainerView::resumed).collect();
        Status {
            phase: match self.phase.as_str() {
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Pending,
            },
            reason: self.reason.clone(),
            message: self.message.clone(),
            stage: Stage::Syncing,
            started: Moment::from_millis(self.started),
            conditions: self.conditions.iter().filter_map(ConditionView::resumed).collect(),
            init: statuses(&self.init),
            containers: statuses(&self.containers),
            ephemeral: Vec::new(),
        }
    }
}

impl ContainerView {
    fn new(status: &ContainerStatus) -> Self {
        Self {
            name: status.name.as_str().to_owned(),
            state: match &status.state {
                ContainerState::Waiting { reason, message } => {
                    StateView::Waiting { reason: reason.clone(), message: message.clone() }
                }
                ContainerState::Running { since } => StateView::Running { since: since.millis() },
                ContainerState::Terminated(exit) => StateView::Terminated(ExitView::new(exit)),
            },
            last: status.last.as_ref().map(ExitView::new),
            ready: status.ready,
            started: status.started,
            restarts: status.restart_count,
        }
    }

    fn exit(&self) -> Option<&ExitView> {
        match &self.state {
            StateView::Terminated(exit) => Some(exit),
            _ => None,
        }
    }

    /// None if no container can have the name.
    fn resumed(&self) -> Option<ContainerStatus> {
        Some(ContainerStatus {
            name: ContainerName::new(self.name.as_str()).ok()?,
            state: match &self.state {
                StateView::Waiting { reason, message } => {
                    ContainerState::Waiting { reason: reason.clone(), message: message.clone() }
                }
                StateView::Running { since } => {
                    ContainerState::Running { since: Moment::from_millis(*since) }
                }
                StateView::Terminated(exit) => ContainerState::Terminated(exit.resumed()),
            },
            last: self.last.as_ref().map(ExitView::resumed),
            ready: self.ready,
            started: self.started,
            restart_count: self.restarts,
        })
    }
}

impl ExitView {
    fn new(exit: &Exit) -> Self {
        Self {
            code: exit.code,
            reason: exit.reason().to_owned(),
            message: exit.message.clone(),
            started: exit.started.map(Moment::millis),
            finished: exit.finished.millis(),
        }
    }

    fn resumed(&self) -> Exit {
        Exit {
            code: self.code,
            reason: Some(self.reason.clone()),
            message: self.message.clone(),
            started: self.started.map(Moment::from_millis),
            finished: Moment::from_millis(self.finished),
        }
    }
}

impl ConditionView {
    fn new(condition: &Condition) -> Self {
        Self {
            kind: condition.kind.to_string(),
            status: format!("{:?}", condition.status),
            since: condition.since.millis(),
        }
    }

    fn resumed(&self) -> Option<Condition> {
        let kinds = [
            ConditionKind::PodScheduled,
            ConditionKind::PodReadyToStartContainers,
            ConditionKind::Initialized,
            ConditionKind::ContainersReady,
            ConditionKind::Ready,
            ConditionKind::DisruptionTarget,
        ];
        let kind = kinds.into_iter().find(|kind| kind.to_string() == self.kind)?;
        let status = match self.status.as_str() {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        };
        let since = Moment::from_millis(self.since);
        Some(Condition { kind, status, reason: "", message: String::new(), since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32) -> ContainerView {
        let exit = ExitView { code, reason: "x".into(), message: String::new(), started: None, finished: 5 };
        let state = StateView::Terminated(exit);
        ContainerView { name: "a".into(), state, last: None, ready: false, started: false, restarts: 2 }
    }

    fn pod(phase: &str, containers: Vec<ContainerView>) -> PodStatus {
        PodStatus {
            phase: phase.into(),
            stage: "Terminated".into(),
            reason: None,
            message: None,
            started: 3,
            ips: vec![],
            conditions: vec![ConditionView { kind: "Ready".into(), status: "False".into(), since: 4 }],
            init: vec![],
            containers,
        }
    }

    #[test]
    fn a_pods_exit_code_is_that_of_the_first_container_that_failed() {
        assert_eq!(pod("Succeeded", vec![ended(0), ended(0)]).exit_code(), 0);
        assert_eq!(pod("Failed", vec![ended(0), ended(7), ended(9)]).exit_code(), 7);
        assert_eq!(pod("Failed", vec![]).exit_code(), 1);
    }

    #[test]
    fn a_sidecar_that_was_told_to_go_does_not_make_its_pod_fail() {
        let status = PodStatus { init: vec![ended(143)], ..pod("Succeeded", vec![ended(0)]) };
        assert_eq!(status.exit_code(), 0);
    }

    #[test]
    fn what_was_written_is_what_is_gone_on_from() {
        let status = pod("Failed", vec![ended(7)]);
        let again = PodStatus::new(&status.resumed(), vec![]);
        assert_eq!(PodStatus { stage: "Terminated".into(), ..again }, status);
    }
}
