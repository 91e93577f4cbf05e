use types::ContainerName;

use crate::action::{HookKind, Task};
use crate::container::ProbeKind;
use crate::moment::Moment;
use crate::observed::{Exit, Instance, InstanceState, Outcome, Verdict};
use crate::state::{Failure, InstanceKey, Seen};
use crate::turn::Turn;

impl Turn<'_> {
    /// Takes in the observed state. Idempotent.
    pub(crate) fn absorb(&mut self) {
        self.state.started.get_or_insert(self.now);
        for outcome in &self.observed.outcomes {
            match outcome {
                Outcome::SandboxStopped { attempt } => {
                    self.state.stopped_sandboxes.insert(*attempt);
                }
                Outcome::ContainerStopped { container, attempt } => {
                    let instance = (container.clone(), *attempt);
                    if let Some(kill) = self.state.kills.get_mut(&instance) {
                        kill.stopped = Some(self.now);
                    }
                    self.state.stopped_containers.insert(instance);
                }
                _ => {}
            }
        }
        let newest = self.observed.sandboxes.iter().map(|sandbox| sandbox.attempt).max();
        self.state.sandbox_attempts = self.state.sandbox_attempts.max(newest);
        let names: Vec<ContainerName> = self.pod.each().map(|(_, c)| c.name.clone()).collect();
        for name in &names {
            self.absorb_instances(name);
        }
        for outcome in &self.observed.outcomes {
            self.absorb_outcome(outcome);
        }
        self.forget_old_failures();
    }

    fn absorb_instances(&mut self, name: &ContainerName) {
        let instances = || self.observed.instances.iter().filter(|i| i.container == *name);
        let newest = instances().max_by_key(|instance| instance.attempt);
        let before = newest.and_then(|newest| {
            let older = instances().filter(|i| i.attempt < newest.attempt);
            older.filter_map(exit_of).max_by_key(|(attempt, _)| *attempt).map(|(_, exit)| exit.clone())
        });
        match newest {
            Some(instance) => self.absorb_newest(instance, before),
            None => self.notice_loss(name),
        }
    }

    fn absorb_newest(&mut self, instance: &Instance, before: Option<Exit>) {
        let (now, name) = (self.now, &instance.container);
        let known = self.seen(name).map(|seen| seen.attempt);
        if known.is_some_and(|attempt| attempt > instance.attempt) {
            return self.notice_loss(name);
        }
        let is_stopped = self.state.stopped_containers.contains(&(name.clone(), instance.attempt));
        let is_starting = self.is_starting(name);
        let track = self.track_mut(name);
        if known != Some(instance.attempt) {
            let remembered = track.newest.as_ref().and_then(|seen| seen.exit().cloned());
            track.last = remembered.or(track.last.take());
            track.turn_over();
        }
        track.last = before.or(track.last.take());
        let is_clear = matches!(instance.state, InstanceState::Running { .. } | InstanceState::Exited(_));
        track.stalled = if is_clear || is_starting { None } else { Some(track.stalled.unwrap_or(now)) };
        let mut state = instance.state.clone();
        if state == InstanceState::Unknown {
            // An end is final, also where only a status reports it.
            let known = track.newest.take().filter(|seen| seen.attempt == instance.attempt && seen.is_sure);
            match known.map(|seen| seen.state) {
                Some(exited @ InstanceState::Exited(_)) => state = exited,
                _ if is_stopped => state = InstanceState::Exited(Exit::lost(None, now)),
                _ => {}
            }
        }
        let (sandbox, revision) = (Some(instance.sandbox), Some(instance.revision));
        track.newest = Some(Seen { attempt: instance.attempt, sandbox, revision, state, is_sure: true });
    }

    /// A container that ran and no longer exists has ended: it must not run twice because it was forgotten.
    fn notice_loss(&mut self, name: &ContainerName) {
        let now = self.now;
        let Some(seen) = self.state.tracks.get_mut(name).and_then(|track| track.newest.as_mut()) else {
            return;
        };
        let started = seen.running_since();
        if started.is_some() || seen.state == InstanceState::Unknown {
            seen.state = InstanceState::Exited(Exit::lost(started, now));
        }
    }

    fn absorb_outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::ProbeRan { container, attempt, kind, begun, verdict } => {
                if self.is_newest(container, *attempt) {
                    self.absorb_probe(container, *kind, *begun, *verdict);
                }
            }
            Outcome::HookRan { container, attempt, hook, verdict } => {
                self.absorb_hook(&(container.clone(), *attempt), *hook, *verdict);
            }
            Outcome::Failed { task: Task::Hook(container, attempt, hook), .. } => {
                self.absorb_hook(&(container.clone(), *attempt), *hook, Verdict::Failure);
            }
            Outcome::Failed { task, at, reason, message } => {
                let times = match self.state.failures.get(task) {
                    Some(before) if before.at >= *at => return,
                    Some(before) => before.times.saturating_add(1),
                    None => 1,
                };
                let failure = Failure { at: *at, times, reason: reason.clone(), message: message.clone() };
                self.state.failures.insert(task.clone(), failure);
            }
            Outcome::SandboxStopped { .. } | Outcome::ContainerStopped { .. } => {}
        }
    }

    fn absorb_probe(&mut self, name: &ContainerName, kind: ProbeKind, begun: Moment, verdict: Verdict) {
        let Some((_, container)) = self.pod.each().find(|(_, c)| c.name == *name) else { return };
        let Some(spec) = container.probe(kind) else { return };
        let track = self.track_mut(name).probes.entry(kind).or_default();
        if track.begun.is_some_and(|last| begun <= last) || track.is_decided(kind) {
            return;
        }
        track.begun = Some(begun);
        match verdict {
            Verdict::Success => track.count(verdict, spec.success_threshold),
            Verdict::Failure => track.count(verdict, spec.failure_threshold),
            Verdict::Error => {}
        }
    }

    fn absorb_hook(&mut self, key: &InstanceKey, hook: HookKind, verdict: Verdict) {
        match hook {
            HookKind::PreStop => {
                if let Some(kill) = self.state.kills.get_mut(key) {
                    kill.pre_stop_done = true;
                }
            }
            HookKind::PostStart if self.is_newest(&key.0, key.1) => {
                self.track_mut(&key.0).post_start.get_or_insert(verdict);
            }
            HookKind::PostStart => {}
        }
    }

    fn is_newest(&self, name: &ContainerName, attempt: u32) -> bool {
        self.seen(name).is_some_and(|seen| seen.attempt == attempt)
    }

    fn forget_old_failures(&mut self) {
        let failures = std::mem::take(&mut self.state.failures);
        self.state.failures = failures.into_iter().filter(|(task, _)| self.may_recur(task)).collect();
    }

    /// Whether a task that failed may be needed again.
    fn may_recur(&self, task: &Task) -> bool {
        let has_sandbox = |n: u32| self.observed.sandboxes.iter().any(|s| s.attempt == n);
        let has_instance = |name: &ContainerName, n: u32| {
            self.observed.instances.iter().any(|i| i.container == *name && i.attempt == n)
        };
        match task {
            Task::MakeSandbox(n) => !has_sandbox(*n),
            Task::StopSandbox(n) => has_sandbox(*n) && !self.state.stopped_sandboxes.contains(n),
            Task::RemoveSandbox(n) => has_sandbox(*n),
            Task::Start(name, n) => self.seen(name).is_none_or(|seen| {
                seen.attempt < *n || (seen.attempt == *n && seen.state == InstanceState::Created)
            }),
            Task::Stop(name, n) | Task::Remove(name, n) => has_instance(name, *n),
            Task::Probe(name, n, _) | Task::Hook(name, n, _) => self.is_newest(name, *n),
        }
    }
}

fn exit_of(instance: &Instance) -> Option<(u32, &Exit)> {
    match &instance.state {
        InstanceState::Exited(exit) => Some((instance.attempt, exit)),
        _ => None,
    }
}
