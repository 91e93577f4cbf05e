use std::time::Duration;

use types::ContainerName;

use crate::action::{Action, StopReason, Task};
use crate::moment::Moment;
use crate::observed::Sandbox;
use crate::pod::Role;
use crate::state::{Takedown, Terminal};
use crate::status::Phase;
use crate::turn::{Turn, key};

/// The least grace period of a pod that is deleted or evicted.
const LEAST_POD_GRACE: Duration = Duration::from_secs(1);

impl Turn<'_> {
    /// Starts the pod's termination if it is deleted, evicted or past its deadline. The first cause stands; a later
    /// one can only shorten the grace period.
    pub(crate) fn consider_end(&mut self) {
        let deadline = self.active_deadline();
        let (pod, is_ending) = (self.pod, self.is_ending());
        if let Some(eviction) = pod.eviction() {
            let (reason, message) = (eviction.reason.clone(), eviction.message.clone());
            self.end_from_outside(StopReason::Evicted, Some((reason, message)));
        }
        if deadline.is_some_and(|at| at <= self.now) {
            let message = "Pod was active on the node longer than the specified deadline";
            let why = ("DeadlineExceeded".to_owned(), message.to_owned());
            self.end_from_outside(StopReason::DeadlineExceeded, Some(why));
        } else if let Some(at) = deadline.filter(|_| !is_ending) {
            self.wake_at(at);
        }
        if pod.deletion().is_some() {
            self.end_from_outside(StopReason::Deleted, None);
        }
        if self.state.terminal.is_some() && !self.is_ending() {
            self.begin_takedown(StopReason::PodFinished, self.pod.spec().grace);
        }
    }

    fn active_deadline(&self) -> Option<Moment> {
        Some(self.state.started?.after(self.pod.spec().active_deadline?))
    }

    fn end_from_outside(&mut self, reason: StopReason, failed: Option<(String, String)>) {
        if let Some((reason, message)) = failed.filter(|_| !self.is_ending()) {
            let (reason, message) = (Some(reason), Some(message));
            self.state.terminal.get_or_insert(Terminal { phase: Phase::Failed, reason, message });
        }
        let asked = match (self.pod.deletion().map(|d| d.grace), self.pod.eviction().map(|e| e.grace)) {
            (Some(Some(a)), Some(Some(b))) => a.min(b),
            (Some(Some(grace)), _) | (_, Some(Some(grace))) => grace,
            _ => self.pod.spec().grace,
        };
        self.begin_takedown(reason, asked.max(LEAST_POD_GRACE));
    }

    /// Stops everything for good within `grace` from now, or earlier if that was so already.
    pub(crate) fn begin_takedown(&mut self, reason: StopReason, grace: Duration) {
        match &mut self.state.takedown {
            Some(takedown) => {
                takedown.grace = takedown.grace.min(grace);
                if !takedown.is_final {
                    takedown.is_final = true;
                    takedown.reason = reason;
                }
            }
            none => *none = Some(Takedown { reason, grace, is_final: true, done: None }),
        }
    }

    /// Stops everything so that a new sandbox can be created.
    pub(crate) fn begin_renewal(&mut self) {
        let (reason, grace) = (StopReason::SandboxChanged, self.pod.spec().grace);
        self.state.takedown.get_or_insert(Takedown { reason, grace, is_final: false, done: None });
    }

    /// Stops containers first, all at once except for the sidecars' order; sandboxes when no container runs.
    pub(crate) fn take_down(&mut self) {
        let Some(takedown) = self.state.takedown.clone() else { return };
        let living: Vec<_> = self.living().map(key).collect();
        // A later step asks for a later moment, which changes nothing unless the grace period was shortened.
        let deadline = self.now.after(takedown.grace);
        for instance in living {
            self.mark_for_kill(instance, takedown.reason, deadline);
        }
        if self.is_anything_up() {
            return;
        }
        for attempt in self.sandboxes_to_stop().map(|sandbox| sandbox.attempt).collect::<Vec<_>>() {
            self.order(Action::StopSandbox { attempt });
        }
    }

    /// Whether a container runs or may soon.
    fn is_anything_up(&self) -> bool {
        let is_coming = |task: &Task| matches!(task, Task::Start(..) | Task::MakeSandbox(_));
        self.living().next().is_some() || self.observed.under_way.iter().any(is_coming)
    }

    /// A sandbox that is not ready may have been lost: its network is released by stopping it.
    fn sandboxes_to_stop(&self) -> impl Iterator<Item = &Sandbox> {
        let stopped = &self.state.stopped_sandboxes;
        self.observed.sandboxes.iter().filter(|s| s.ready || !stopped.contains(&s.attempt))
    }

    pub(crate) fn is_all_down(&self) -> bool {
        !self.is_anything_up() && self.sandboxes_to_stop().next().is_none()
    }

    /// Until when a sidecar must be left running for others: regular containers, and sidecars after it. One of them may
    /// have begun to run, and so has to end, later than the sidecar. `None` if nothing needs it.
    pub(crate) fn needed_until(&self, sidecar: &ContainerName) -> Option<Moment> {
        let after = self.pod.each().skip_while(|(_, c)| c.name != *sidecar).skip(1);
        let users = after.filter(|(role, _)| matches!(role, Role::Sidecar | Role::Regular));
        let coming = self.state.takedown.as_ref().map(|takedown| self.now.after(takedown.grace));
        let until = |user: &ContainerName| {
            let coming = coming.filter(|_| self.is_starting(user));
            let living = self.living().filter(|instance| instance.container == *user).map(key);
            living
                .filter_map(|instance| self.state.kills.get(&instance).map(|k| k.deadline))
                .chain(coming)
                .max()
        };
        users.filter_map(|(_, user)| until(&user.name)).max()
    }
}
