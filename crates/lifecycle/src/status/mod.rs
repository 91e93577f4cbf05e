//! The status of a pod: its phase, its conditions, its containers.

mod conditions;
mod containers;
mod phase;

use types::ContainerName;

use crate::action::Task;
use crate::moment::Moment;
use crate::observed::{ConditionStatus, Exit};
use crate::pod::Role;
use crate::state::Terminal;
use crate::turn::Turn;

pub use conditions::{Condition, ConditionKind};

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not all of its containers have been started.
    Pending,
    /// All were started; one runs or will again.
    Running,
    /// All have ended with code 0, for good.
    Succeeded,
    /// All have ended, one of them with a failure, for good.
    Failed,
}

impl Phase {
    /// Whether the phase is final.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The stage of a pod on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is kept in its desired state.
    Syncing,
    /// It is being stopped.
    Terminating,
    /// Nothing of it runs or will run: volumes and IDs can be released.
    Terminated,
}

/// The state of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// It waits for its start.
    Waiting {
        /// The reason, by Kubernetes' names.
        reason: String,
        /// The message; may be empty.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when.
        since: Moment,
    },
    /// It has ended.
    Terminated(Exit),
}

/// The status of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatus {
    /// Its name.
    pub name: ContainerName,
    /// Its state.
    pub state: ContainerState,
    /// How the previous instance ended.
    pub last: Option<Exit>,
    /// A regular container or sidecar: it is ready. An init container: it has succeeded.
    pub ready: bool,
    /// It runs and its startup probe has passed.
    pub started: bool,
    /// Its restart count.
    pub restart_count: u32,
}

/// The status of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its phase.
    pub phase: Phase,
    /// The reason, if the node ended it: `DeadlineExceeded`, `Evicted`.
    pub reason: Option<String>,
    /// The message; before its end, why its sandbox cannot be made.
    pub message: Option<String>,
    /// Its stage.
    pub stage: Stage,
    /// When the node admitted it.
    pub started: Moment,
    /// The conditions that the node sets.
    pub conditions: Vec<Condition>,
    /// Its init containers and sidecars.
    pub init: Vec<ContainerStatus>,
    /// Its regular containers.
    pub containers: Vec<ContainerStatus>,
    /// Its ephemeral containers.
    pub ephemeral: Vec<ContainerStatus>,
}

impl Turn<'_> {
    pub(crate) fn status(&mut self) -> Status {
        let stage = self.stage();
        if stage == Stage::Terminated
            && let Some(takedown) = &mut self.state.takedown
        {
            takedown.done.get_or_insert(self.now);
        }
        let changes = self.pod.each().filter_map(|(_, c)| self.says_otherwise_at(c)).min();
        self.wake = changes.into_iter().chain(self.wake).min();
        let all: Vec<_> = self.pod.each().map(|(role, c)| (role, self.container_status(role, c))).collect();
        let of = |wanted: &[Role]| -> Vec<ContainerStatus> {
            let some = all.iter().filter(|(role, _)| wanted.contains(role));
            some.map(|(_, status)| status.clone()).collect()
        };
        let (init, containers) = (of(&[Role::Init, Role::Sidecar]), of(&[Role::Regular]));
        let phase = self.settle_phase(&all, stage);
        let conditions = self.conditions(&all, phase);
        let terminal = self.state.terminal.as_ref();
        Status {
            phase,
            reason: terminal.and_then(|t| t.reason.clone()),
            message: terminal.map_or_else(|| self.sandbox_failure(), |t| t.message.clone()),
            stage,
            started: self.state.started.unwrap_or(self.now),
            conditions,
            init,
            containers,
            ephemeral: of(&[Role::Ephemeral]),
        }
    }

    fn sandbox_failure(&self) -> Option<String> {
        let mut failures = self.state.failures.iter();
        let failed = failures.rfind(|(task, _)| matches!(task, Task::MakeSandbox(_)));
        failed.map(|(_, failure)| failure.message.clone())
    }

    fn stage(&self) -> Stage {
        match (self.is_ending(), self.is_all_down()) {
            (false, _) => Stage::Syncing,
            (true, false) => Stage::Terminating,
            (true, true) => Stage::Terminated,
        }
    }

    /// A final phase is kept; a pod that has ended has one.
    fn settle_phase(&mut self, all: &[(Role, ContainerStatus)], stage: Stage) -> Phase {
        if let Some(terminal) = &self.state.terminal {
            return terminal.phase;
        }
        let phase = match (self.phase(all, stage), stage) {
            (Phase::Pending | Phase::Running, Stage::Terminated) => Phase::Failed,
            (phase, _) => phase,
        };
        if phase.is_final() {
            self.state.terminal = Some(Terminal { phase, reason: None, message: None });
        }
        phase
    }

    /// Since when a condition has had its status.
    pub(crate) fn transition(&mut self, kind: ConditionKind, status: ConditionStatus) -> Moment {
        let entry = self.state.conditions.entry(kind).or_insert((status, self.now));
        if entry.0 != status {
            *entry = (status, self.now);
        }
        entry.1
    }
}
