use super::{Doing, Model, One, Seen};

impl Model<'_> {
    pub fn seen(&self) -> Seen {
        let stage = if !self.down.is_some_and(|down| down.is_final) {
            "Syncing"
        } else if self.is_over() {
            "Terminated"
        } else {
            "Terminating"
        };
        let containers = self.all.iter().map(|one| self.words_for(one)).collect();
        Seen { phase: self.phase.to_owned(), stage: stage.to_owned(), containers }
    }

    /// Whether nothing of the pod is left.
    fn is_over(&self) -> bool {
        let is_busy = self.all.iter().any(|one| one.runs() || one.starting.is_some());
        self.down.is_some_and(|down| down.is_final)
            && !is_busy
            && self.making.is_none()
            && self.sandboxes.iter().all(|(_, stopped)| *stopped)
    }

    fn words_for(&self, one: &One) -> String {
        let is_ready = if one.is_init && !one.is_sidecar {
            matches!(one.doing, Doing::Dead { code: 0, .. })
        } else {
            one.is_up() && (one.spec.readiness.is_none() || one.asked[2].says == Some(true))
        };
        let state = self.state_of(one);
        let restarts = one.instances.saturating_sub(1);
        format!("{} {state} ready={is_ready} started={} restarts={restarts}", one.spec.name, one.is_up())
    }

    fn state_of(&self, one: &One) -> String {
        let failure = one.failed.map(|(at, is_pull, _)| match (is_pull, self.now >= at + 3) {
            (true, true) => "ImagePullBackOff",
            (true, false) => "ErrImagePull",
            (false, _) => "CreateContainerError",
        });
        let has_begun = self.all.iter().any(|one| !one.is_init && one.instances > 0);
        let has_init = self.all.iter().any(|one| one.is_init);
        match one.doing {
            Doing::Runs { .. } => "Running".to_owned(),
            Doing::Nothing if self.is_over() && !one.is_init && (has_begun || !has_init) => {
                "Terminated:137".to_owned()
            }
            Doing::Nothing => {
                let default = if has_init { "PodInitializing" } else { "ContainerCreating" };
                format!("Waiting:{}", failure.unwrap_or(default))
            }
            Doing::Dead { code, at } => {
                let goes_on = !self.down.is_some_and(|down| down.is_final) && self.comes_again(one);
                let is_waiting = !one.may_start
                    && one.wait.is_some_and(|(wait, set)| at <= set + 16 && at + wait > self.now);
                match failure {
                    Some(failure) if goes_on => format!("Waiting:{failure}"),
                    None if goes_on && is_waiting => "Waiting:CrashLoopBackOff".to_owned(),
                    _ => format!("Terminated:{code}"),
                }
            }
        }
    }

    pub fn find_phase(&mut self) {
        if self.phase == "Succeeded" || self.phase == "Failed" {
            return;
        }
        self.phase = self.present_phase();
        if self.is_over() && self.phase != "Succeeded" {
            self.phase = "Failed";
        }
    }

    fn present_phase(&self) -> &'static str {
        let here = self.sandboxes.len().checked_sub(1).and_then(|n| u32::try_from(n).ok());
        let plain = || self.all.iter().filter(|one| one.is_init && !one.is_sidecar);
        let sidecars = || self.all.iter().filter(|one| one.is_sidecar);
        let regular = || self.all.iter().filter(|one| !one.is_init);
        let is_dead = |one: &One| matches!(one.doing, Doing::Dead { .. });
        let is_bad = |one: &One| matches!(one.doing, Doing::Dead { code, .. } if code != 0);
        if plain().any(|one| is_bad(one) && !self.comes_again(one)) {
            return "Failed";
        }
        let has_begun = regular().any(|one| one.sandbox.is_some() && one.sandbox == here);
        let is_pending = plain().any(|one| !is_dead(one))
            || sidecars().any(|one| one.instances == 0 || (one.runs() && !one.is_up() && !has_begun))
            || regular().any(|one| one.instances == 0 && !self.is_over());
        if is_pending {
            return "Pending";
        }
        if sidecars().chain(regular()).any(One::runs) {
            return "Running";
        }
        let is_done = self.is_over() || regular().all(|one| !self.comes_again(one));
        match (is_done, regular().any(|one| is_bad(one) || one.instances == 0)) {
            (false, _) => "Running",
            (true, false) => "Succeeded",
            (true, true) => "Failed",
        }
    }
}
