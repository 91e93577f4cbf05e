use std::collections::{BTreeMap, BTreeSet};

use types::{ContainerName, reason};

use crate::action::{HookKind, Task};
use crate::container::ProbeKind;
use crate::moment::Moment;
use crate::pod::Network;

/// What the caller observes, in this order: the tasks under way, then the runtime's lists, then the outcomes; so a
/// task that has ended is in the lists before it is missing here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// Actions that were issued and have not ended.
    pub under_way: BTreeSet<Task>,
    /// The pod's sandboxes, in any order.
    pub sandboxes: Vec<Sandbox>,
    /// The pod's containers, running and dead, in any order.
    pub instances: Vec<Instance>,
    /// What has ended, in the order it did. An outcome that is reported twice counts once.
    pub outcomes: Vec<Outcome>,
    /// The pod's conditions by type, set by other components.
    pub conditions: BTreeMap<String, ConditionStatus>,
    /// Whether the node has more dead instances of containers than it may keep.
    pub is_crowded: bool,
    /// Running instances that get their new resources only by a restart.
    pub outdated: BTreeSet<(ContainerName, u32)>,
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// True.
    True,
    /// False.
    False,
    /// Unknown.
    Unknown,
}

/// A sandbox as the runtime lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sandbox {
    /// Its number.
    pub attempt: u32,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it has an address.
    pub addressed: bool,
    /// Its network.
    pub network: Network,
}

/// A container as the runtime lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Which container.
    pub container: ContainerName,
    /// How often it was started before.
    pub attempt: u32,
    /// In which sandbox it is.
    pub sandbox: u32,
    /// The revision of the definition it was made from.
    pub revision: u64,
    /// Its state.
    pub state: InstanceState,
}

/// The state of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceState {
    /// Created and never started.
    Created,
    /// It runs.
    Running {
        /// Since when.
        since: Moment,
    },
    /// It has ended.
    Exited(Exit),
    /// Unknown to the runtime.
    Unknown,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, 128 and the signal's number if it was killed.
    pub code: i32,
    /// The runtime's reason, as `OOMKilled`; without one it is `Completed` or `Error` by the code.
    pub reason: Option<String>,
    /// Its termination message.
    pub message: String,
    /// When it was started, if it was.
    pub started: Option<Moment>,
    /// When it ended.
    pub finished: Moment,
}

impl Exit {
    /// The reason that is shown.
    #[must_use]
    pub fn reason(&self) -> &str {
        match (&self.reason, self.code) {
            (Some(reason), _) if !reason.is_empty() => reason,
            (_, 0) => reason::COMPLETED,
            _ => reason::ERROR,
        }
    }

    /// The end of a container that existed and no longer does.
    pub(crate) fn lost(started: Option<Moment>, finished: Moment) -> Self {
        Self {
            code: 137,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: "the container was running and can no longer be found".to_owned(),
            started,
            finished,
        }
    }
}

/// The result of a probe or a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Success.
    Success,
    /// Failure; a timeout counts as one.
    Failure,
    /// The probe could not be run (the caller tried three times): no result.
    Error,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A sandbox was stopped and its network released.
    SandboxStopped {
        /// Its number.
        attempt: u32,
    },
    /// The runtime says that the container has stopped.
    ContainerStopped {
        /// Which.
        container: ContainerName,
        /// Which instance.
        attempt: u32,
    },
    /// A probe was run.
    ProbeRan {
        /// In which container.
        container: ContainerName,
        /// Which instance.
        attempt: u32,
        /// Which probe.
        kind: ProbeKind,
        /// When the run began: identifies the run.
        begun: Moment,
        /// Its result.
        verdict: Verdict,
    },
    /// A hook was run, to its end.
    HookRan {
        /// In which container.
        container: ContainerName,
        /// Which instance.
        attempt: u32,
        /// Which hook.
        hook: HookKind,
        /// Its result; one that could not be run has failed.
        verdict: Verdict,
    },
    /// A task could not be done.
    Failed {
        /// Which.
        task: Task,
        /// When: identifies the failure.
        at: Moment,
        /// Kubernetes' reason, such as `ErrImagePull`; shown as the reason why a container waits.
        reason: String,
        /// The message.
        message: String,
    },
}
