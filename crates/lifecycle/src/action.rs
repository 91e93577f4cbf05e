use std::fmt;
use std::time::Duration;

use types::ContainerName;

use crate::container::ProbeKind;
use crate::moment::Moment;

/// Which of a container's hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookKind {
    /// Right after the start.
    PostStart,
    /// Before the end.
    PreStop,
}

/// Why a container is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopReason {
    /// The pod was deleted.
    Deleted,
    /// The node evicted the pod.
    Evicted,
    /// The pod was active for longer than it may.
    DeadlineExceeded,
    /// Every regular container has ended: the sidecars are stopped too.
    PodFinished,
    /// An init container failed for good.
    InitFailed,
    /// The sandbox is lost or no longer fits.
    SandboxChanged,
    /// The liveness probe failed.
    LivenessProbe,
    /// The startup probe failed.
    StartupProbe,
    /// The postStart hook failed.
    FailedPostStartHook,
    /// The container's definition is another now.
    DefinitionChanged,
    /// The container's resources are others now, and it is to be started anew with them.
    Resized,
    /// The runtime does not know the container's state: it is stopped before another is started.
    StateUnknown,
    /// A newer instance of the same container exists, or the pod has no such container.
    NotCurrent,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleted => "the pod was deleted",
            Self::Evicted => "the node gave the pod up",
            Self::DeadlineExceeded => "the pod was active for longer than its deadline",
            Self::PodFinished => "the pod's regular containers have ended",
            Self::InitFailed => "an init container failed",
            Self::SandboxChanged => "the pod's sandbox is made anew",
            Self::LivenessProbe => "the liveness probe failed",
            Self::StartupProbe => "the startup probe failed",
            Self::FailedPostStartHook => "the postStart hook failed",
            Self::DefinitionChanged => "the container's definition changed",
            Self::Resized => "the container's resources changed",
            Self::StateUnknown => "the container's state is unknown",
            Self::NotCurrent => "it is not the pod's current instance",
        })
    }
}

/// An action for the caller to execute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Create the pod's sandbox.
    MakeSandbox {
        /// Its number; the first is 0.
        attempt: u32,
    },
    /// Stop a sandbox and release its network; idempotent.
    StopSandbox {
        /// Its number.
        attempt: u32,
    },
    /// Remove a stopped sandbox that has no containers any more.
    RemoveSandbox {
        /// Its number.
        attempt: u32,
    },
    /// Create and start a container in the newest sandbox.
    StartContainer {
        /// Its name.
        container: ContainerName,
        /// How often it was started before: the restart count.
        attempt: u32,
    },
    /// Send SIGTERM to a container and SIGKILL after `grace`. Issued again with less grace if the pod's was shortened.
    StopContainer {
        /// Its name.
        container: ContainerName,
        /// Which instance.
        attempt: u32,
        /// From SIGTERM to SIGKILL.
        grace: Duration,
        /// The cause.
        reason: StopReason,
    },
    /// Remove a dead instance; the newest dead one is always left.
    RemoveContainer {
        /// Its name.
        container: ContainerName,
        /// Which instance.
        attempt: u32,
    },
    /// Run a probe once.
    RunProbe {
        /// In which container.
        container: ContainerName,
        /// Which instance.
        attempt: u32,
        /// Which probe.
        kind: ProbeKind,
        /// How long it may take.
        timeout: Duration,
    },
    /// Run a hook once.
    RunHook {
        /// In which container.
        container: ContainerName,
        /// Which instance.
        attempt: u32,
        /// Which hook.
        hook: HookKind,
        /// The timeout after which its result is not waited for any more.
        limit: Option<Duration>,
    },
    /// Call `step` again at this time even if nothing has happened. At most one, the last of the actions.
    Wake {
        /// When.
        at: Moment,
    },
}

/// An action without its parameters: what the caller keeps while it is under way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// See [`Action::MakeSandbox`].
    MakeSandbox(u32),
    /// See [`Action::StopSandbox`].
    StopSandbox(u32),
    /// See [`Action::RemoveSandbox`].
    RemoveSandbox(u32),
    /// See [`Action::StartContainer`].
    Start(ContainerName, u32),
    /// See [`Action::StopContainer`].
    Stop(ContainerName, u32),
    /// See [`Action::RemoveContainer`].
    Remove(ContainerName, u32),
    /// See [`Action::RunProbe`].
    Probe(ContainerName, u32, ProbeKind),
    /// See [`Action::RunHook`].
    Hook(ContainerName, u32, HookKind),
}

impl Action {
    /// Its task; a wake-up is none.
    #[must_use]
    pub fn task(&self) -> Option<Task> {
        Some(match self {
            Self::MakeSandbox { attempt } => Task::MakeSandbox(*attempt),
            Self::StopSandbox { attempt } => Task::StopSandbox(*attempt),
            Self::RemoveSandbox { attempt } => Task::RemoveSandbox(*attempt),
            Self::StartContainer { container, attempt } => Task::Start(container.clone(), *attempt),
            Self::StopContainer { container, attempt, .. } => Task::Stop(container.clone(), *attempt),
            Self::RemoveContainer { container, attempt } => Task::Remove(container.clone(), *attempt),
            Self::RunProbe { container, attempt, kind, .. } => {
                Task::Probe(container.clone(), *attempt, *kind)
            }
            Self::RunHook { container, attempt, hook, .. } => Task::Hook(container.clone(), *attempt, *hook),
            Self::Wake { .. } => return None,
        })
    }
}
