use crate::action::Action;
use crate::container::Container;
use crate::moment::Moment;
use crate::observed::InstanceState;
use crate::turn::Turn;

impl Turn<'_> {
    /// Starts a container, unless it must wait. True if it is being started.
    pub(crate) fn start(&mut self, container: &Container) -> bool {
        let name = &container.name;
        if self.is_starting(name) {
            return true;
        }
        // Two instances of one container never run at once.
        if self.living().any(|instance| instance.container == *name) {
            return false;
        }
        let track = self.track_mut(name);
        let attempt = track.next_attempt();
        let is_first_order = track.ordered != Some(attempt);
        if is_first_order && let Some(until) = self.waits_until(container) {
            self.wake_at(until);
            return false;
        }
        if !self.order(Action::StartContainer { container: name.clone(), attempt }) {
            return false;
        }
        if is_first_order {
            self.note_restart(container);
            self.track_mut(name).ordered = Some(attempt);
        }
        true
    }

    fn waits_until(&self, container: &Container) -> Option<Moment> {
        let track = self.track(&container.name)?;
        let until = match &track.newest.as_ref()?.state {
            InstanceState::Exited(exit) => self.backoff(container, exit)?.0,
            // The runtime created it and could not start it.
            InstanceState::Created => track.stalled?.after(self.state.settings.retry),
            InstanceState::Running { .. } | InstanceState::Unknown => return None,
        };
        (until > self.now).then_some(until)
    }

    /// Every restart doubles the next delay; another definition resets it.
    fn note_restart(&mut self, container: &Container) {
        let (now, settings) = (self.now, self.state.settings);
        let track = self.track_mut(&container.name);
        let Some(seen) = track.newest.as_ref() else { return };
        let Some(finished) = seen.exit().map(|exit| exit.finished) else { return };
        if seen.revision.is_some_and(|revision| revision != container.revision) {
            track.backoff = crate::backoff::Backoff::default();
        }
        track.backoff.restarted(finished, now, &settings);
    }
}
