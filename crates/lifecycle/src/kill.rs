use std::time::Duration;

use crate::action::{Action, HookKind, StopReason, Task};
use crate::container::{Container, ProbeKind};
use crate::moment::Moment;
use crate::observed::{Instance, InstanceState};
use crate::pod::Role;
use crate::state::{InstanceKey, Sentence};
use crate::turn::{Turn, key};

impl Turn<'_> {
    /// An instance is to end by `deadline`. The first reason stands; the deadline only comes nearer.
    pub(crate) fn condemn(&mut self, instance: InstanceKey, reason: StopReason, deadline: Moment) {
        let fresh = Sentence { reason, deadline, pre_stop_done: false, kill_at: None };
        let sentence = self.state.condemned.entry(instance).or_insert(fresh);
        sentence.deadline = sentence.deadline.min(deadline);
    }

    /// Ends the newest instance of a container in a pod that goes on.
    pub(crate) fn condemn_newest(&mut self, container: &Container, reason: StopReason) {
        let Some(attempt) = self.seen(&container.name).map(|seen| seen.attempt) else { return };
        let grace = self.grace_for(container, reason);
        self.condemn((container.name.clone(), attempt), reason, self.now.after(grace));
    }

    fn grace_for(&self, container: &Container, reason: StopReason) -> Duration {
        let probe = match reason {
            StopReason::LivenessProbe => container.probe(ProbeKind::Liveness),
            StopReason::StartupProbe => container.probe(ProbeKind::Startup),
            _ => None,
        };
        probe.and_then(|probe| probe.grace).unwrap_or(self.pod.spec().grace)
    }

    /// What runs and is not the pod's current instance of that container would be a second one; and what has ended by
    /// all that was said, and may run for all that the runtime knows, is stopped to be sure.
    pub(crate) fn condemn_strays(&mut self) {
        let deadline = self.now.after(self.pod.spec().grace);
        let has_ended = |i: &Instance| self.seen(&i.container).is_some_and(|seen| seen.exit().is_some());
        let stray: Vec<_> = self.living().filter(|i| !self.is_current(i) || has_ended(i)).map(key).collect();
        for instance in stray {
            self.condemn(instance, StopReason::Stray, deadline);
        }
    }

    pub(crate) fn carry_out_sentences(&mut self) {
        let living: Vec<_> = self.living().map(|i| (key(i), i.state.clone())).collect();
        for (instance, state) in living {
            let Some(sentence) = self.state.condemned.get(&instance).cloned() else { continue };
            if self.is_pre_stop_due(&instance, &state, &sentence) {
                self.run_pre_stop(&instance, &sentence);
            } else if self.is_spared_for_others(&instance, &sentence) {
                self.wake_at(sentence.deadline);
            } else {
                self.stop(&instance, &sentence);
            }
        }
    }

    fn is_pre_stop_due(&self, instance: &InstanceKey, state: &InstanceState, sentence: &Sentence) -> bool {
        let has_hook = self.find(&instance.0).is_some_and(|(_, container)| container.pre_stop);
        let runs = matches!(state, InstanceState::Running { .. });
        // Once told to stop there is no going back to the hook, even if a stop has failed.
        let is_stopping =
            sentence.kill_at.is_some() || self.is_under_way(&Task::Stop(instance.0.clone(), instance.1));
        has_hook && runs && !is_stopping && !sentence.pre_stop_done && self.now < sentence.deadline
    }

    fn run_pre_stop(&mut self, instance: &InstanceKey, sentence: &Sentence) {
        let (container, attempt) = instance.clone();
        let limit = Some(sentence.deadline.since(self.now));
        self.order(Action::RunHook { container, attempt, hook: HookKind::PreStop, limit });
        self.wake_at(sentence.deadline);
    }

    fn is_spared_for_others(&self, instance: &InstanceKey, sentence: &Sentence) -> bool {
        let is_sidecar = self.find(&instance.0).is_some_and(|(role, _)| role == Role::Sidecar);
        is_sidecar
            && self.state.takedown.is_some()
            && sentence.kill_at.is_none()
            && self.now < sentence.deadline
            && self.is_still_needed(&instance.0)
    }

    /// Tells the runtime, again if it was not told or told a later moment.
    fn stop(&mut self, instance: &InstanceKey, sentence: &Sentence) {
        let grace = sentence.deadline.since(self.now).max(self.state.settings.least_grace);
        let kill_at = self.now.after(grace);
        let (container, attempt) = instance.clone();
        let task = Task::Stop(container.clone(), attempt);
        let told = sentence.kill_at.filter(|_| self.is_under_way(&task));
        if told.is_some_and(|told| told <= kill_at) {
            return;
        }
        let action = Action::StopContainer { container, attempt, grace, reason: sentence.reason };
        let is_ordered = if told.is_some() {
            self.actions.push(action);
            true
        } else {
            self.order(action)
        };
        if (is_ordered || self.is_under_way(&task))
            && let Some(sentence) = self.state.condemned.get_mut(instance)
        {
            sentence.kill_at = Some(kill_at);
        }
    }
}
