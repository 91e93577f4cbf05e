use std::time::Duration;

use types::{ContainerName, reason};

use crate::action::{Action, StopReason, Task};
use crate::container::{Container, RestartPolicy};
use crate::moment::Moment;
use crate::observed::{Exit, Instance, InstanceState, Observed};
use crate::pod::{Pod, Role};
use crate::state::{Failure, InstanceKey, Seen, State, Track};

/// One step under computation.
pub(crate) struct Turn<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) observed: &'a Observed,
    pub(crate) state: &'a mut State,
    pub(crate) now: Moment,
    pub(crate) actions: Vec<Action>,
    pub(crate) wake: Option<Moment>,
}

impl Turn<'_> {
    pub(crate) fn wake_at(&mut self, at: Moment) {
        self.wake = Some(self.wake.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn is_under_way(&self, task: &Task) -> bool {
        self.observed.under_way.contains(task)
    }

    /// Issues an action unless it is under way or failed too recently. True if it was issued.
    pub(crate) fn order(&mut self, action: Action) -> bool {
        let Some(task) = action.task() else { return false };
        if self.is_under_way(&task) {
            return false;
        }
        if let Some(failure) = self.state.failures.get(&task) {
            let until = self.retry_at(failure);
            if until > self.now {
                self.wake_at(until);
                return false;
            }
        }
        self.actions.push(action);
        true
    }

    /// When a failed start is shown with another reason.
    pub(crate) fn renamed_at(&self, failure: &Failure) -> Option<Moment> {
        reason::is_failed_pull(&failure.reason).then(|| failure.at.after(self.state.settings.retry))
    }

    /// The delay after a failed image pull doubles; any other action is tried again after a fixed delay.
    fn retry_at(&self, failure: &Failure) -> Moment {
        let settings = &self.state.settings;
        if !reason::is_failed_pull(&failure.reason) {
            return failure.at.after(settings.retry);
        }
        let doublings = failure.times.saturating_sub(1).min(16);
        let delay = settings.backoff_initial.saturating_mul(1 << doublings);
        failure.at.after(delay.min(settings.backoff_cap))
    }

    pub(crate) fn track(&self, name: &ContainerName) -> Option<&Track> {
        self.state.tracks.get(name)
    }

    pub(crate) fn track_mut(&mut self, name: &ContainerName) -> &mut Track {
        self.state.tracks.entry(name.clone()).or_default()
    }

    pub(crate) fn seen(&self, name: &ContainerName) -> Option<&Seen> {
        self.track(name).and_then(|track| track.newest.as_ref())
    }

    /// The newest instance, if it is in this sandbox.
    pub(crate) fn seen_in(&self, name: &ContainerName, sandbox: u32) -> Option<&Seen> {
        self.seen(name).filter(|seen| seen.sandbox == Some(sandbox))
    }

    pub(crate) fn is_starting(&self, name: &ContainerName) -> bool {
        self.observed.under_way.iter().any(|task| matches!(task, Task::Start(n, _) if n == name))
    }

    /// Whether an instance runs, or may run as far as is known.
    pub(crate) fn lives(&self, instance: &Instance) -> bool {
        match instance.state {
            InstanceState::Running { .. } => true,
            InstanceState::Unknown => !self.state.stopped_containers.contains(&key(instance)),
            InstanceState::Created | InstanceState::Exited(_) => false,
        }
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Instance> {
        self.observed.instances.iter().filter(|instance| self.lives(instance))
    }

    pub(crate) fn is_current(&self, instance: &Instance) -> bool {
        self.seen(&instance.container).is_some_and(|seen| seen.attempt == instance.attempt)
    }

    pub(crate) fn find(&self, name: &ContainerName) -> Option<(Role, &Container)> {
        self.pod.each().find(|(_, container)| container.name == *name)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.state.takedown.as_ref().is_some_and(|takedown| takedown.is_final)
    }

    /// Whether a container, now that its newest instance does not run, is one to be started again in a
    /// pod that goes on.
    pub(crate) fn is_restartable(&self, role: Role, container: &Container) -> bool {
        let Some(seen) = self.seen(&container.name) else { return true };
        match (&seen.state, role) {
            (_, Role::Ephemeral) => false,
            (InstanceState::Exited(_), Role::Sidecar) => true,
            (InstanceState::Exited(exit), Role::Init) if exit.code == 0 => false,
            (InstanceState::Exited(exit), _) => {
                self.is_replaced(container, seen) || self.pod.restarts_after(container, exit.code)
            }
            (InstanceState::Running { .. }, _) => false,
            (InstanceState::Created | InstanceState::Unknown, _) => true,
        }
    }

    /// Whether the instance was stopped in order to be replaced, whatever its exit code.
    fn is_replaced(&self, container: &Container, seen: &Seen) -> bool {
        let kill = self.state.kills.get(&(container.name.clone(), seen.attempt));
        match kill.map(|kill| kill.reason) {
            Some(StopReason::DefinitionChanged | StopReason::Resized) => true,
            Some(StopReason::LivenessProbe | StopReason::StartupProbe) => {
                self.pod.policy(container) != RestartPolicy::Never
            }
            _ => false,
        }
    }

    /// Until when a container that ended waits, and the whole delay.
    pub(crate) fn backoff(&self, container: &Container, exit: &Exit) -> Option<(Moment, Duration)> {
        let track = self.track(&container.name)?;
        if track.newest.as_ref().is_some_and(|s| s.revision.is_some_and(|r| r != container.revision)) {
            return None;
        }
        let settings = &self.state.settings;
        let delay = track.backoff.current(exit.finished, settings)?;
        Some((track.backoff.until(exit.finished, settings), delay))
    }
}

pub(crate) fn key(instance: &Instance) -> InstanceKey {
    (instance.container.clone(), instance.attempt)
}
