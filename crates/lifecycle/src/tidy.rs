use std::collections::BTreeSet;

use crate::action::Action;
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

    /// Of each container the newest instance stays, and the last dead one before it.
    fn remove_containers(&mut self) {
        let mut dead: Vec<InstanceKey> = (self.observed.instances.iter())
            .filter(|i| !self.lives(i) && !self.is_current(i) && !self.is_starting(&i.container))
            .map(key)
            .collect();
        dead.sort_unstable();
        let mut following = dead.iter().skip(1);
        for (container, attempt) in &dead {
            let has_later = following.next().is_some_and(|(next, _)| next == container);
            if has_later {
                self.order(Action::RemoveContainer { container: container.clone(), attempt: *attempt });
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
