use std::collections::BTreeSet;

use crate::action::Action;
use crate::moment::Moment;
use crate::observed::InstanceState;
use crate::state::InstanceKey;
use crate::turn::{Turn, key};

impl Turn<'_> {
    /// Removes instances and sandboxes that are no longer needed, and forgets those that no longer exist.
    pub(crate) fn tidy(&mut self) {
        self.remove_containers();
        self.remove_sandboxes();
        let kept: BTreeSet<InstanceKey> = self.observed.instances.iter().map(key).collect();
        let newest: BTreeSet<InstanceKey> = (self.state.tracks.iter())
            .filter_map(|(name, track)| Some((name.clone(), track.newest.as_ref()?.attempt)))
            .collect();
        self.state.kills.retain(|instance, _| kept.contains(instance) || newest.contains(instance));
        self.state.stopped_containers.retain(|instance| kept.contains(instance));
        let listed = |attempt: &u32| self.observed.sandboxes.iter().any(|s| s.attempt == *attempt);
        self.state.stopped_sandboxes.retain(listed);
    }

    /// Of each container the newest instance stays, and as many dead ones before it as the node keeps: none if the node has
    /// more of them than it may.
    fn remove_containers(&mut self) {
        let settings = self.state.settings;
        let kept = if self.observed.is_crowded { Some(0) } else { settings.dead_kept };
        let Some(kept) = kept.map(|kept| usize::try_from(kept).unwrap_or(usize::MAX)) else { return };
        let mut dead: Vec<(InstanceKey, Option<Moment>)> = (self.observed.instances.iter())
            .filter(|i| !self.lives(i) && !self.is_current(i) && !self.is_starting(&i.container))
            .map(|i| (key(i), ended(&i.state)))
            .collect();
        dead.sort_unstable();
        for (index, ((container, attempt), ended)) in dead.iter().enumerate() {
            // Those of one container follow each other, the oldest first.
            let has_later = dead.get(index + kept).is_some_and(|((later, _), _)| later == container);
            if !has_later {
                continue;
            }
            let due = ended.map(|ended| ended.after(settings.dead_for));
            match due.filter(|due| *due > self.now) {
                Some(due) => self.wake_at(due),
                None => {
                    let (container, attempt) = (container.clone(), *attempt);
                    self.order(Action::RemoveContainer { container, attempt });
                }
            }
        }
    }

    /// Earlier sandboxes are removed when their last container is removed.
    fn remove_sandboxes(&mut self) {
        let newest = self.observed.sandboxes.iter().map(|s| s.attempt).max();
        let is_used = |n: u32| self.observed.instances.iter().any(|i| i.sandbox == n);
        let old = self.observed.sandboxes.iter().filter(|s| !s.ready && Some(s.attempt) != newest);
        let unused: Vec<u32> = old.map(|s| s.attempt).filter(|n| !is_used(*n)).collect();
        for attempt in unused {
            let is_stopped = self.state.stopped_sandboxes.contains(&attempt);
            let is_ordered = self.actions.contains(&Action::StopSandbox { attempt });
            if is_stopped {
                self.order(Action::RemoveSandbox { attempt });
            } else if !is_ordered {
                self.order(Action::StopSandbox { attempt });
            }
        }
    }
}

/// When an instance has ended; `None` for one that was never started.
fn ended(state: &InstanceState) -> Option<Moment> {
    match state {
        InstanceState::Exited(exit) => Some(exit.finished),
        _ => None,
    }
}
