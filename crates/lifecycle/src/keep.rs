use crate::action::{Action, HookKind, StopReason};
use crate::container::{Container, ProbeKind};
use crate::observed::{InstanceState, Verdict};
use crate::pod::Role;
use crate::turn::Turn;

/// The state of a container that is to be kept running.
pub(crate) struct Kept {
    /// It runs, its postStart hook is done, its startup probe has passed, and nothing stops it.
    pub(crate) is_up: bool,
    /// It is being started, or its postStart hook runs: those declared after it wait.
    pub(crate) holds_others: bool,
}

impl Turn<'_> {
    /// Regular containers start side by side, but for those declared after one with a postStart hook.
    pub(crate) fn keep_regular(&mut self) {
        let mut is_held = false;
        for container in &self.pod.spec().containers {
            let runs = self.seen(&container.name).is_some_and(|seen| seen.running_since().is_some());
            if runs || !is_held {
                is_held |= self.keep(Role::Regular, container).holds_others;
            }
        }
    }

    /// Ephemeral containers are started once, also while the pod is still being initialised.
    pub(crate) fn start_ephemeral(&mut self) {
        for container in &self.pod.spec().ephemeral {
            if self.seen(&container.name).is_none() {
                self.start(container);
            }
        }
    }

    /// Starts a container that does not run and should, stops one that runs and should not.
    pub(crate) fn keep(&mut self, role: Role, container: &Container) -> Kept {
        let nothing = Kept { is_up: false, holds_others: false };
        match self.seen(&container.name).map(|seen| seen.state.clone()) {
            Some(InstanceState::Running { .. }) => self.keep_running(container),
            Some(InstanceState::Unknown) => {
                self.mark_newest_for_kill(container, StopReason::StateUnknown);
                nothing
            }
            _ if self.is_restartable(role, container) => {
                let is_starting = self.start(container);
                Kept { is_up: false, holds_others: is_starting && container.post_start }
            }
            _ => nothing,
        }
    }

    fn keep_running(&mut self, container: &Container) -> Kept {
        if let Some(reason) = self.reason_to_replace(container) {
            self.mark_newest_for_kill(container, reason);
            return Kept { is_up: false, holds_others: false };
        }
        let is_hooked = self.is_post_start_done(container);
        Kept { is_up: is_hooked && self.has_started(container), holds_others: !is_hooked }
    }

    /// Why a running container is to be replaced.
    fn reason_to_replace(&self, container: &Container) -> Option<StopReason> {
        let track = self.track(&container.name)?;
        let seen = track.newest.as_ref()?;
        if let Some(kill) = self.state.kills.get(&(container.name.clone(), seen.attempt)) {
            return Some(kill.reason);
        }
        if seen.sandbox != self.good_sandbox() {
            return Some(StopReason::NotCurrent);
        }
        if seen.revision.is_some_and(|revision| revision != container.revision) {
            return Some(StopReason::DefinitionChanged);
        }
        let failed = |kind| container.probe(kind).is_some() && track.result(kind) == Some(Verdict::Failure);
        if failed(ProbeKind::Liveness) {
            return Some(StopReason::LivenessProbe);
        }
        if failed(ProbeKind::Startup) {
            return Some(StopReason::StartupProbe);
        }
        if self.observed.outdated.contains(&(container.name.clone(), seen.attempt)) {
            return Some(StopReason::Resized);
        }
        let is_ours = track.ordered == Some(seen.attempt);
        let has_failed = is_ours
            && container.post_start
            && track.post_start.is_some_and(|verdict| verdict != Verdict::Success);
        has_failed.then_some(StopReason::FailedPostStartHook)
    }

    /// Runs the hook of an instance that this state has started. An instance that was found running has had its hook:
    /// hooks are not run twice.
    fn is_post_start_done(&mut self, container: &Container) -> bool {
        let Some(track) = self.track(&container.name) else { return true };
        let Some(seen) = track.newest.as_ref() else { return true };
        if !container.post_start || track.ordered != Some(seen.attempt) || track.post_start.is_some() {
            return true;
        }
        let (container, attempt) = (container.name.clone(), seen.attempt);
        self.order(Action::RunHook { container, attempt, hook: HookKind::PostStart, limit: None });
        false
    }

    /// Whether the container runs and has come up by its startup probe, if it has one.
    pub(crate) fn has_started(&self, container: &Container) -> bool {
        let Some(track) = self.track(&container.name) else { return false };
        let runs = track.newest.as_ref().is_some_and(|seen| seen.running_since().is_some());
        runs && (container.startup.is_none() || track.result(ProbeKind::Startup) == Some(Verdict::Success))
    }
}
