//! The status of a pod in its stored and printed form.

use lifecycle::{
    Condition, ConditionKind, ConditionStatus, ContainerName, ContainerState, ContainerStatus, Exit, Moment,
    Phase, Stage, Status,
};
use serde::{Deserialize, Serialize};
use types::reason;

use crate::status::resources_view::ResourcesStatus;

/// A pod's status. A later process resumes the pod from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    pub phase: String,
    /// `Syncing`, `Terminating` or `Terminated`.
    pub stage: String,
    /// Why the node stopped the pod, if it did: a reason of Kubernetes.
    pub reason: Option<String>,
    /// A message for the reason; or why the pod cannot start.
    pub message: Option<String>,
    /// When the node accepted the pod: milliseconds since 1970.
    pub started: u64,
    /// Its addresses.
    pub ips: Vec<String>,
    /// Its conditions.
    pub conditions: Vec<ConditionView>,
    /// Its init containers and sidecars.
    pub init: Vec<ContainerView>,
    /// Its regular containers.
    pub containers: Vec<ContainerView>,
    /// Its ephemeral containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ephemeral: Vec<ContainerView>,
    /// The generation of the spec that the status is about; `None` for a pod that is not of an API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Its resources; `None` for one that this process has not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesStatus>,
}

/// One condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionView {
    /// Its type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, as Kubernetes names it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A message for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time of the last transition: milliseconds since 1970.
    pub since: u64,
}

/// The status of one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// Its current state.
    pub state: StateView,
    /// How its previous instance ended.
    pub last: Option<ExitView>,
    /// Whether it is ready; for an init container, whether it has completed.
    pub ready: bool,
    /// Whether it runs and its startup probe has succeeded.
    pub started: bool,
    /// The number of restarts.
    pub restarts: u32,
    /// Its newest instance in the runtime; `None` before there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceView>,
    /// The runtime's ID of the instance before the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_id: Option<String>,
}

/// An instance of a container in the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceView {
    /// The runtime's ID of it.
    pub id: String,
    /// Its image, as the runtime names it.
    pub image: String,
    /// The runtime's reference to the image, usually with its digest.
    pub image_id: String,
    /// The user of its first process; `None` if the runtime does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserView>,
}

/// The user of a container's first process, as seen inside of the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserView {
    /// Its user ID.
    pub uid: i64,
    /// Its group ID.
    pub gid: i64,
    /// Its supplementary groups.
    pub supplemental_groups: Vec<i64>,
}

/// The state of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StateView {
    /// It is not started yet, or waits for its restart.
    Waiting {
        /// The reason, as Kubernetes names it.
        reason: String,
        /// A message for people.
        message: String,
    },
    /// It runs.
    Running {
        /// When it was started: milliseconds since 1970.
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
    /// The reason, as Kubernetes names it.
    pub reason: String,
    /// Its termination message.
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
            ephemeral: views(&status.ephemeral),
            generation: None,
            resources: None,
        }
    }

    /// Adds each container's instances in the runtime, newest first. A container without one keeps those of `before`:
    /// the runtime forgets containers of a pod that has ended.
    pub(crate) fn identified(
        mut self,
        before: Option<&Self>,
        instances: impl Fn(&str) -> Vec<InstanceView>,
    ) -> Self {
        let known = |name: &str| {
            before.into_iter().flat_map(Self::all_containers).find(|container| container.name == name)
        };
        for container in self.init.iter_mut().chain(&mut self.containers).chain(&mut self.ephemeral) {
            let mut found = instances(&container.name).into_iter();
            container.instance = found.next();
            container.previous_id = found.next().map(|instance| instance.id);
            if let (None, Some(known)) = (&container.instance, known(&container.name)) {
                container.instance.clone_from(&known.instance);
                container.previous_id.clone_from(&known.previous_id);
            }
        }
        self
    }

    /// Its init containers, then its regular containers, then its ephemeral ones.
    pub fn all_containers(&self) -> impl Iterator<Item = &ContainerView> {
        self.init.iter().chain(&self.containers).chain(&self.ephemeral)
    }

    /// Whether the pod has terminated: no container runs, and none will be started.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.stage == "Terminated"
    }

    /// Whether the pod is being stopped, or has terminated.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.stage != "Syncing"
    }

    /// Whether the pod is past the phase `Pending`: its containers have been started, or it has ended.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.phase != "Pending"
    }

    /// The pod's exit code: that of the first container that failed, init containers first; 0 if the pod has
    /// not failed, whatever the exit codes of its sidecars.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        if self.phase == "Succeeded" {
            return 0;
        }
        let ended = self.init.iter().chain(&self.containers).filter_map(ContainerView::exit);
        let first = ended.map(|exit| exit.code).find(|code| *code != 0);
        first.unwrap_or(i32::from(self.phase == "Failed"))
    }

    /// The status that `lifecycle` resumes from.
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
            ephemeral: statuses(&self.ephemeral),
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
            instance: None,
            previous_id: None,
        }
    }

    pub(crate) fn exit(&self) -> Option<&ExitView> {
        match &self.state {
            StateView::Terminated(exit) => Some(exit),
            _ => None,
        }
    }

    /// The message of its back-off, if it waits for its restart after a crash.
    pub(crate) fn back_off(&self) -> Option<&str> {
        match &self.state {
            StateView::Waiting { reason, message } if reason == reason::CRASH_LOOP_BACK_OFF => Some(message),
            _ => None,
        }
    }

    /// Whether it waits for the next pull of its image.
    pub(crate) fn is_pull_back_off(&self) -> bool {
        matches!(&self.state, StateView::Waiting { reason, .. } if reason == reason::IMAGE_PULL_BACK_OFF)
    }

    /// How its newest instance that has ended did so.
    pub(crate) fn newest_end(&self) -> Option<&ExitView> {
        self.exit().or(self.last.as_ref())
    }

    /// `None` if the name is not a valid container name.
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

    /// The end in words, without the container's name. What the runtime says of a container that it could not run
    /// is quoted; the container's own last words are not.
    pub(crate) fn words(&self) -> String {
        let code = self.code;
        if [reason::COMPLETED, reason::ERROR].contains(&self.reason.as_str()) {
            return format!("exited with code {code}");
        }
        let said = self.message.lines().next().filter(|_| self.reason != reason::OOM_KILLED);
        let said = said.map(|line| format!(": {line}")).unwrap_or_default();
        format!("ended: {}, exit code {code}{said}", self.reason)
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
            reason: condition.reason.to_owned(),
            message: condition.message.clone(),
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
        let (instance, previous_id) = (None, None);
        let name = "a".into();
        ContainerView {
            name,
            state,
            last: None,
            ready: false,
            started: false,
            restarts: 2,
            instance,
            previous_id,
        }
    }

    fn pod(phase: &str, containers: Vec<ContainerView>) -> PodStatus {
        PodStatus {
            phase: phase.into(),
            stage: "Terminated".into(),
            reason: None,
            message: None,
            started: 3,
            ips: vec![],
            conditions: vec![ConditionView {
                kind: "Ready".into(),
                status: "False".into(),
                reason: String::new(),
                message: String::new(),
                since: 4,
            }],
            init: vec![],
            containers,
            ephemeral: vec![],
            generation: None,
            resources: None,
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
    fn a_container_that_the_runtime_has_forgotten_keeps_its_id() {
        let instance =
            |id: &str| InstanceView { id: id.into(), image: "i".into(), image_id: "sha".into(), user: None };
        let first = pod("Running", vec![ended(1)]).identified(None, |_| vec![instance("2"), instance("1")]);
        assert_eq!(first.containers[0].instance, Some(instance("2")));
        assert_eq!(first.containers[0].previous_id.as_deref(), Some("1"));
        let later = pod("Failed", vec![ended(1)]).identified(Some(&first), |_| vec![]);
        assert_eq!(later.containers[0].instance, Some(instance("2")));
    }

    #[test]
    fn a_status_without_the_newer_fields_is_read() {
        let old = r#"{"name":"a","state":{"running":{"since":1}},"last":null,"ready":true,"started":true,"restarts":0}"#;
        let view: ContainerView = serde_json::from_str(old).unwrap();
        assert_eq!(view.instance, None);
        assert_eq!(serde_json::to_string(&view).unwrap(), old);
    }

    #[test]
    fn what_was_written_is_what_is_gone_on_from() {
        let status = pod("Failed", vec![ended(7)]);
        let again = PodStatus::new(&status.resumed(), vec![]);
        assert_eq!(PodStatus { stage: "Terminated".into(), ..again }, status);
    }
}
