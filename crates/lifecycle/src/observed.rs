use std::collections::{BTreeMap, BTreeSet};

use types::{ContainerName, reason};

use crate::action::{HookKind, Task};
use crate::container::ProbeKind;
use crate::moment::Moment;
use crate::pod::Network;

/// What the caller sees. It looks in this order: the tasks under way, then the runtime's lists, then the
/// outcomes; so a task that has ended is in the lists before it is missing here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// What was ordered and has not ended.
    pub under_way: BTreeSet<Task>,
    /// The pod's sandboxes, in any order.
    pub sandboxes: Vec<Sandbox>,
    /// The pod's containers, running and dead, in any order.
    pub instances: Vec<Instance>,
    /// What has ended, in the order it did. The same outcome told twice counts once.
    pub outcomes: Vec<Outcome>,
    /// The conditions that others set on the pod, by type: whether they are true.
    pub conditions: BTreeMap<String, ConditionStatus>,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
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
    /// Whose network it has.
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
    /// What it does.
    pub state: InstanceState,
}

/// What an instance does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceState {
    /// It was made and never started.
    Created,
    /// It runs.
    Running {
        /// Since when.
        since: Moment,
    },
    /// It has ended.
    Exited(Exit),
    /// The runtime cannot say.
    Unknown,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, 128 and the signal's number if it was killed.
    pub code: i32,
    /// The runtime's reason, as `OOMKilled`; without one it is `Completed` or `Error` by the code.
    pub reason: Option<String>,
    /// What it left as its last words.
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

    /// The end of a container that was there and is no longer.
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

/// What a probe or a hook said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Well.
    Success,
    /// Not well; too late counts as this.
    Failure,
    /// It could not be run (tried three times by whoever runs it): says nothing.
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
        /// When the run began: tells one run from another.
        begun: Moment,
        /// What it said.
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
        /// How it went; one that could not be run has failed.
        verdict: Verdict,
    },
    /// A task could not be done.
    Failed {
        /// Which.
        task: Task,
        /// When: tells one failure from another.
        at: Moment,
        /// Kubernetes' word for it, as `ErrImagePull`; shown as why a container waits.
        reason: String,
        /// In words.
        message: String,
    },
}
