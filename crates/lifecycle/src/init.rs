use crate::action::StopReason;
use crate::container::Container;
use crate::observed::InstanceState;
use crate::pod::{Role, init_role};
use crate::turn::Turn;

impl Turn<'_> {
    /// Whether an init container has failed for good: the pod has, then. One whose state is unknown is stopped first,
    /// so that it has ended in every view.
    pub(crate) fn is_init_broken(&self) -> bool {
        let mut plain = self.pod.spec().init.iter().filter(|c| init_role(c) == Role::Init);
        plain.any(|container| match self.seen(&container.name).map(|seen| &seen.state) {
            Some(InstanceState::Exited(exit)) => {
                exit.code != 0 && !self.is_restartable(Role::Init, container)
            }
            _ => false,
        })
    }

    /// Continues with the init containers. True when all are done and every sidecar has been up.
    ///
    /// The last one that has an instance in this sandbox is the current one: those before it are done, also if the
    /// runtime has forgotten them, and of those only sidecars are kept running.
    pub(crate) fn initialize(&mut self, sandbox: u32) -> bool {
        let init = &self.pod.spec().init;
        let is_here = |c: &Container| self.seen_in(&c.name, sandbox).is_some();
        let at_work = if self.pod.spec().containers.iter().any(is_here) {
            init.len()
        } else {
            match init.iter().rposition(is_here) {
                Some(at_work) => at_work,
                None => return self.begin_at(0),
            }
        };
        for container in init.iter().take(at_work) {
            if init_role(container) == Role::Sidecar {
                self.keep(Role::Sidecar, container);
            }
        }
        match init.get(at_work) {
            Some(container) => self.work_on(container) && self.begin_at(at_work.saturating_add(1)),
            None => true,
        }
    }

    /// Starts the init container at `index`. True if there is none.
    fn begin_at(&mut self, index: usize) -> bool {
        let Some(container) = self.pod.spec().init.get(index) else { return true };
        self.start(container);
        false
    }

    /// True when the next one may be started.
    fn work_on(&mut self, container: &Container) -> bool {
        if init_role(container) == Role::Sidecar {
            return self.keep(Role::Sidecar, container).is_up;
        }
        let Some(state) = self.seen(&container.name).map(|seen| seen.state.clone()) else { return false };
        match state {
            InstanceState::Running { .. } => false,
            InstanceState::Exited(exit) if exit.code == 0 => true,
            InstanceState::Unknown => {
                self.mark_newest_for_kill(container, StopReason::StateUnknown);
                false
            }
            InstanceState::Created | InstanceState::Exited(_) => {
                self.start(container);
                false
            }
        }
    }
}
