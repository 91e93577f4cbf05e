use crate::container::Container;
use crate::observed::Exit;
use crate::pod::Role;
use crate::status::{ContainerState, ContainerStatus, Phase, Stage};
use crate::turn::Turn;

/// The number of containers in each state.
#[derive(Default)]
struct Tally {
    /// Init containers that have not ended, sidecars that have not come up.
    uninitialised: u32,
    /// Init containers that failed for good.
    broken: u32,
    waiting: u32,
    running: u32,
    /// Regular containers that have ended, and how.
    stopped: u32,
    for_good: u32,
    succeeded: u32,
}

impl Turn<'_> {
    pub(crate) fn phase(&self, all: &[(Role, ContainerStatus)], stage: Stage) -> Phase {
        let mut tally = Tally::default();
        for ((role, container), (_, status)) in self.pod.each().zip(all) {
            match role {
                Role::Init => self.count_init(&mut tally, container, status),
                Role::Sidecar => self.count_sidecar(&mut tally, status),
                Role::Regular => self.count_regular(&mut tally, container, status),
                Role::Ephemeral => {}
            }
        }
        tally.phase(stage)
    }

    fn count_init(&self, tally: &mut Tally, container: &Container, status: &ContainerStatus) {
        match ended(status) {
            Some(exit) if exit.code == 0 => {}
            Some(_) if self.is_restartable(Role::Init, container) => {}
            Some(_) => tally.broken += 1,
            None => tally.uninitialised += 1,
        }
    }

    /// A sidecar that has ended does not count for the phase.
    fn count_sidecar(&self, tally: &mut Tally, status: &ContainerStatus) {
        let is_initialised = self.has_begun();
        match (&status.state, &status.last) {
            (ContainerState::Running { .. }, _) => {
                tally.running += 1;
                tally.uninitialised += u32::from(!status.started && !is_initialised);
            }
            (ContainerState::Waiting { .. }, None) => tally.waiting += 1,
            _ => {}
        }
    }

    fn count_regular(&self, tally: &mut Tally, container: &Container, status: &ContainerStatus) {
        match (&status.state, ended(status)) {
            (ContainerState::Running { .. }, _) => tally.running += 1,
            (_, Some(exit)) => {
                tally.stopped += 1;
                tally.succeeded += u32::from(exit.code == 0);
                // A start that is under way is waited for, whichever process issued it.
                let goes_on =
                    self.is_starting(&container.name) || self.is_restartable(Role::Regular, container);
                tally.for_good += u32::from(!goes_on);
            }
            _ => tally.waiting += 1,
        }
    }

    /// Whether a regular container has been started in the present sandbox. Of the last one that may be forgotten, while
    /// one before it is still there.
    fn has_begun(&self) -> bool {
        let newest = self.observed.sandboxes.iter().map(|s| s.attempt).max();
        let mut regular = self.pod.spec().containers.iter();
        regular.any(|c| {
            let mut there = self.observed.instances.iter().filter(|i| i.container == c.name);
            self.seen(&c.name).is_some_and(|seen| seen.sandbox == newest)
                || there.any(|i| Some(i.sandbox) == newest)
        })
    }
}

/// How the container ended, if it has and does not run again.
fn ended(status: &ContainerStatus) -> Option<&Exit> {
    match &status.state {
        ContainerState::Terminated(exit) => Some(exit),
        ContainerState::Waiting { .. } => status.last.as_ref(),
        ContainerState::Running { .. } => None,
    }
}

impl Tally {
    fn phase(&self, stage: Stage) -> Phase {
        if self.broken > 0 {
            return Phase::Failed;
        }
        if self.uninitialised > 0 || self.waiting > 0 {
            return Phase::Pending;
        }
        let is_over = stage == Stage::Terminated || self.stopped == self.for_good;
        if self.running > 0 || !is_over {
            return Phase::Running;
        }
        if self.stopped == self.succeeded { Phase::Succeeded } else { Phase::Failed }
    }
}
