use crate::action::{Action, StopReason, Task};
use crate::container::RestartPolicy;
use crate::pod::{Network, Role};
use crate::turn::Turn;

impl Turn<'_> {
    /// Brings the pod to its desired state: a sandbox, then init containers, then the regular ones.
    pub(crate) fn sync(&mut self) {
        if let Some(reason) = self.reason_to_finish() {
            self.begin_takedown(reason, self.pod.spec().grace);
            return self.take_down();
        }
        let Some(sandbox) = self.good_sandbox() else { return self.renew_sandbox() };
        self.state.takedown = None;
        self.start_ephemeral();
        if self.initialize(sandbox) {
            self.keep_regular();
        }
    }

    /// Why there is nothing more to do for the pod. Checked before anything is started: neither a sidecar nor a
    /// sandbox is created for a pod that has finished.
    fn reason_to_finish(&self) -> Option<StopReason> {
        if self.is_init_broken() {
            return Some(StopReason::InitFailed);
        }
        if self.is_finished() {
            return Some(StopReason::PodFinished);
        }
        self.must_not_run_again().then_some(StopReason::SandboxChanged)
    }

    /// The newest sandbox, if containers can run in it.
    pub(crate) fn good_sandbox(&self) -> Option<u32> {
        let sandboxes = &self.observed.sandboxes;
        let newest = sandboxes.iter().max_by_key(|sandbox| sandbox.attempt)?;
        let is_only = sandboxes.iter().filter(|sandbox| sandbox.ready).count() == 1;
        let network = self.pod.spec().network;
        let has_address = newest.addressed || network == Network::Host;
        (newest.ready && is_only && newest.network == network && has_address).then_some(newest.attempt)
    }

    fn renew_sandbox(&mut self) {
        if self.observed.under_way.iter().any(|task| matches!(task, Task::MakeSandbox(_))) {
            return;
        }
        if !self.is_all_down() {
            self.begin_renewal();
            return self.take_down();
        }
        self.state.takedown = None;
        let attempt = self.state.sandbox_attempts.map_or(0, |highest| highest.saturating_add(1));
        self.order(Action::MakeSandbox { attempt });
    }

    /// Whether the pod has lost its sandbox after something ran there, and has the policy `Never`.
    fn must_not_run_again(&self) -> bool {
        let has_run = self.state.tracks.values().any(|track| track.newest.is_some());
        let is_lost = self.state.sandbox_attempts.is_some() && self.good_sandbox().is_none();
        let is_renewing = self.observed.under_way.iter().any(|task| matches!(task, Task::MakeSandbox(_)));
        self.pod.spec().restart == RestartPolicy::Never && is_lost && has_run && !is_renewing
    }

    /// Whether every regular container has ended for good.
    pub(crate) fn is_finished(&self) -> bool {
        self.pod.spec().containers.iter().all(|container| {
            let has_ended = self.seen(&container.name).is_some_and(|seen| seen.exit().is_some());
            has_ended && !self.is_starting(&container.name) && !self.is_restartable(Role::Regular, container)
        })
    }
}
