use std::time::Duration;

use crate::action::{Action, HookKind, StopReason, Task};
use crate::container::{Container, ProbeKind};
use crate::moment::Moment;
use crate::observed::{Instance, InstanceState};
use crate::pod::Role;
use crate::state::{InstanceKey, Kill};
use crate::turn::{Turn, key};

/// How long the runtime may list a container as running after it was stopped. Under load a runtime that learns of an
/// exit by an event lists it a little later.
const LIST_DELAY: Duration = Duration::from_secs(1);

impl Turn<'_> {
    /// Marks an instance for a kill by `deadline`. The first reason stands; the deadline can only get earlier.
    pub(crate) fn mark_for_kill(&mut self, instance: InstanceKey, reason: StopReason, deadline: Moment) {
        let fresh = Kill { reason, deadline, pre_stop_done: false, kill_at: None, stopped: None };
        let kill = self.state.kills.entry(instance).or_insert(fresh);
        kill.deadline = kill.deadline.min(deadline);
    }

    /// Marks the newest instance of a container in a pod that goes on.
    pub(crate) fn mark_newest_for_kill(&mut self, container: &Container, reason: StopReason) {
        let Some(attempt) = self.seen(&container.name).map(|seen| seen.attempt) else { return };
        let grace = self.grace_for(container, reason);
        self.mark_for_kill((container.name.clone(), attempt), reason, self.now.after(grace));
    }

    fn grace_for(&self, container: &Container, reason: StopReason) -> Duration {
        let probe = match reason {
            StopReason::LivenessProbe => container.probe(ProbeKind::Liveness),
            StopReason::StartupProbe => container.probe(ProbeKind::Startup),
            _ => None,
        };
        probe.and_then(|probe| probe.grace).unwrap_or(self.pod.spec().grace)
    }

    /// Marks running instances that are not the pod's current instance of their container, and instances that have
    /// ended by their status and may run by the runtime's list.
    pub(crate) fn mark_orphans(&mut self) {
        let deadline = self.now.after(self.pod.spec().grace);
        let has_ended = |i: &Instance| self.seen(&i.container).is_some_and(|seen| seen.exit().is_some());
        let orphans: Vec<_> =
            self.living().filter(|i| !self.is_current(i) || has_ended(i)).map(key).collect();
        for instance in orphans {
            self.mark_for_kill(instance, StopReason::NotCurrent, deadline);
        }
    }

    pub(crate) fn issue_kills(&mut self) {
        let living: Vec<_> = self.living().map(|i| (key(i), i.state.clone())).collect();
        for (instance, state) in living {
            let Some(kill) = self.state.kills.get(&instance).cloned() else { continue };
            if self.is_pre_stop_due(&instance, &state, &kill) {
                self.run_pre_stop(&instance, &kill);
            } else if let Some(until) = self.needed_by_others_until(&instance, &kill) {
                self.wake_at(until);
            } else {
                self.stop(&instance, &kill);
            }
        }
    }

    fn is_pre_stop_due(&self, instance: &InstanceKey, state: &InstanceState, kill: &Kill) -> bool {
        let has_hook = self.find(&instance.0).is_some_and(|(_, container)| container.pre_stop);
        let runs = matches!(state, InstanceState::Running { .. });
        // After a stop was issued there is no going back to the hook, even if the stop has failed.
        let is_stopping =
            kill.kill_at.is_some() || self.is_under_way(&Task::Stop(instance.0.clone(), instance.1));
        has_hook && runs && !is_stopping && !kill.pre_stop_done && self.now < kill.deadline
    }

    fn run_pre_stop(&mut self, instance: &InstanceKey, kill: &Kill) {
        let (container, attempt) = instance.clone();
        let limit = Some(kill.deadline.since(self.now));
        self.order(Action::RunHook { container, attempt, hook: HookKind::PreStop, limit });
        self.wake_at(kill.deadline);
    }

    fn needed_by_others_until(&self, instance: &InstanceKey, kill: &Kill) -> Option<Moment> {
        let is_sidecar = self.find(&instance.0).is_some_and(|(role, _)| role == Role::Sidecar);
        let waits = is_sidecar && self.state.takedown.is_some() && kill.kill_at.is_none();
        let until = self.needed_until(&instance.0).filter(|_| waits)?.max(kill.deadline);
        (self.now < until).then_some(until)
    }

    /// Issues the stop, again if the issued one has a later deadline or the container still runs after it.
    fn stop(&mut self, instance: &InstanceKey, kill: &Kill) {
        let grace = kill.deadline.since(self.now).max(self.state.settings.least_grace);
        let kill_at = self.now.after(grace);
        let (container, attempt) = instance.clone();
        let task = Task::Stop(container.clone(), attempt);
        let issued = kill.kill_at.filter(|_| self.is_under_way(&task));
        if issued.is_some_and(|issued| issued <= kill_at) {
            return;
        }
        let listed_by = kill.stopped.map(|at| at.after(LIST_DELAY)).filter(|at| self.now < *at);
        if let Some(listed_by) = listed_by.filter(|_| issued.is_none()) {
            return self.wake_at(listed_by);
        }
        let action = Action::StopContainer { container, attempt, grace, reason: kill.reason };
        let is_ordered = if issued.is_some() {
            self.actions.push(action);
            true
        } else {
            self.order(action)
        };
        if (is_ordered || self.is_under_way(&task))
            && let Some(kill) = self.state.kills.get_mut(instance)
        {
            kill.kill_at = Some(kill_at);
        }
    }
}
