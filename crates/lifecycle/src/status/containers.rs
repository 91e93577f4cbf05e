use std::time::Duration;

use types::reason;

use crate::action::Task;
use crate::container::{Container, ProbeKind};
use crate::moment::Moment;
use crate::observed::{Exit, InstanceState, Verdict};
use crate::pod::Role;
use crate::state::{Failure, Seen, Track};
use crate::status::{ContainerState, ContainerStatus, Stage};
use crate::turn::Turn;

impl Turn<'_> {
    pub(crate) fn container_status(&self, role: Role, container: &Container) -> ContainerStatus {
        let name = container.name.clone();
        let (state, last) = self.state_of(role, container);
        let started = self.has_started(container);
        let ready = match role {
            Role::Init => matches!(&state, ContainerState::Terminated(exit) if exit.code == 0),
            Role::Sidecar | Role::Regular => started && self.is_ready(container),
            Role::Ephemeral => false,
        };
        // One that is created was not started again yet: its status is about the one before.
        let is_created = |seen: &Seen| u32::from(seen.state == InstanceState::Created);
        let restart_count = self.seen(&name).map_or(0, |seen| seen.attempt.saturating_sub(is_created(seen)));
        ContainerStatus { name, state, last, ready, started, restart_count }
    }

    fn is_ready(&self, container: &Container) -> bool {
        let passed = self.track(&container.name).and_then(|track| track.result(ProbeKind::Readiness));
        container.readiness.is_none() || passed == Some(Verdict::Success)
    }

    fn state_of(&self, role: Role, container: &Container) -> (ContainerState, Option<Exit>) {
        let last = self.track(&container.name).and_then(|track| track.last.clone());
        let Some(seen) = self.seen(&container.name) else {
            return (self.state_of_unseen(role, container), last);
        };
        match &seen.state {
            InstanceState::Running { since } => (ContainerState::Running { since: *since }, last),
            InstanceState::Created => (self.waiting(container, seen.attempt), last),
            InstanceState::Unknown => {
                let since = self.track(&container.name).and_then(|track| track.stalled);
                (ContainerState::Terminated(Exit::lost(None, since.unwrap_or(self.now))), last)
            }
            InstanceState::Exited(exit) => match self.wait_after(role, container, seen, exit) {
                Some(waiting) => (waiting, Some(exit.clone())),
                None => (ContainerState::Terminated(exit.clone()), last),
            },
        }
    }

    fn state_of_unseen(&self, role: Role, container: &Container) -> ContainerState {
        let regular = &self.pod.spec().containers;
        let has_begun = regular.iter().any(|c| self.seen(&c.name).is_some());
        if role == Role::Init && has_begun {
            let message = "the runtime has forgotten it; it must have ended well for others to have started";
            let (reason, message) = (Some(reason::COMPLETED.to_owned()), message.to_owned());
            let finished = self.state.started.unwrap_or(self.now);
            return ContainerState::Terminated(Exit { code: 0, reason, message, started: None, finished });
        }
        let was_due = self.pod.spec().init.is_empty() || has_begun;
        if role == Role::Regular && was_due && self.stage() == Stage::Terminated {
            let done = self.state.takedown.as_ref().and_then(|takedown| takedown.done);
            let mut exit = Exit::lost(None, done.unwrap_or(self.now));
            "the pod was ended before the container was started".clone_into(&mut exit.message);
            return ContainerState::Terminated(exit);
        }
        self.waiting(container, 0)
    }

    /// Why a container whose newest instance has ended waits for the next; none if it does not.
    fn wait_after(
        &self,
        role: Role,
        container: &Container,
        seen: &Seen,
        exit: &Exit,
    ) -> Option<ContainerState> {
        if self.is_ending() || !self.is_restartable(role, container) {
            return None;
        }
        let next = seen.attempt.saturating_add(1);
        if self.state.failures.contains_key(&Task::Start(container.name.clone(), next)) {
            return Some(self.waiting(container, next));
        }
        let delay = self.crash_loop(container, seen, exit)?.1;
        Some(ContainerState::Waiting {
            reason: "CrashLoopBackOff".to_owned(),
            message: format!("back-off {}s restarting failed container {}", delay.as_secs(), container.name),
        })
    }

    /// Until when a container waits because it ended too often, and for how long in all.
    fn crash_loop(&self, container: &Container, seen: &Seen, exit: &Exit) -> Option<(Moment, Duration)> {
        let next = seen.attempt.saturating_add(1);
        let is_ordered = self.track(&container.name).is_some_and(|track| track.ordered == Some(next));
        self.backoff(container, exit).filter(|(until, _)| *until > self.now && !is_ordered)
    }

    /// When the status of a container changes by time alone.
    pub(crate) fn says_otherwise_at(&self, container: &Container) -> Option<Moment> {
        let next = self.track(&container.name).map_or(0, Track::next_attempt);
        if let Some(failure) = self.state.failures.get(&Task::Start(container.name.clone(), next)) {
            return self.renamed_at(failure).filter(|at| *at > self.now);
        }
        let seen = self.seen(&container.name).filter(|_| !self.is_ending())?;
        Some(self.crash_loop(container, seen, seen.exit()?)?.0)
    }

    fn waiting(&self, container: &Container, attempt: u32) -> ContainerState {
        if let Some(failure) = self.state.failures.get(&Task::Start(container.name.clone(), attempt)) {
            let (reason, message) = (self.shown_reason(failure), failure.message.clone());
            return ContainerState::Waiting { reason, message };
        }
        let is_plain = self.pod.spec().init.is_empty();
        let reason = if is_plain { reason::CONTAINER_CREATING } else { reason::POD_INITIALIZING };
        ContainerState::Waiting { reason: reason.to_owned(), message: String::new() }
    }

    /// A pull that failed just now is an error, then a wait.
    fn shown_reason(&self, failure: &Failure) -> String {
        if self.renamed_at(failure).is_some_and(|at| at <= self.now) {
            return "ImagePullBackOff".to_owned();
        }
        failure.reason.clone()
    }
}
