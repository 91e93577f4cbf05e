//! The pods of each volume, by what they ask for.

use std::collections::BTreeSet;

use crate::ask::Ask;
use crate::keys::VolumeId;
use crate::maps::HashMap;
use crate::slab::{Index, Slab};

/// All volumes that pods ask something of.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    rows: Slab<SharedVolume>,
    by_id: HashMap<VolumeId, Index>,
    /// Those with conflicts.
    contested: BTreeSet<Index>,
    conflicts: u64,
}

/// A volume.
#[derive(Debug)]
pub(crate) struct SharedVolume {
    pub(crate) id: VolumeId,
    /// Its own place.
    pub(crate) index: Index,
    /// In no order; none is empty.
    pub(crate) groups: Vec<Group>,
    /// Pairs of pods, counted once for each property they differ in.
    pub(crate) conflicts: u64,
}

/// Pods that ask for the same.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) ask: Ask,
    /// In no order: to keep one would be to look at the others' names with every change.
    pub(crate) pods: Vec<Index>,
}

impl SharedVolume {
    /// How many conflicts one pod that asks for this has with the others.
    fn conflicts_of(&self, ask: &Ask) -> u64 {
        let size = |g: &Group| u64::try_from(g.pods.len()).unwrap_or(u64::MAX);
        self.groups.iter().map(|g| g.ask.differences(ask) * size(g)).sum()
    }

    /// The groups in the order of what they ask for.
    pub(crate) fn in_order(&self) -> Vec<&Group> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_unstable_by_key(|group| &group.ask);
        groups
    }
}

impl Volumes {
    /// The volume of this name; made if there is none.
    pub(crate) fn index_of(&mut self, id: &VolumeId) -> Index {
        if let Some(&index) = self.by_id.get(id) {
            return index;
        }
        let make = |index| SharedVolume { id: id.clone(), index, groups: Vec::new(), conflicts: 0 };
        let index = self.rows.insert_with(make);
        self.by_id.insert(id.clone(), index);
        index
    }

    pub(crate) fn get(&self, index: Index) -> Option<&SharedVolume> {
        self.rows.get(index)
    }

    pub(crate) fn find(&self, id: &VolumeId) -> Option<&SharedVolume> {
        self.rows.get(*self.by_id.get(id)?)
    }

    /// Adds a pod, which is not there yet, to those who ask for this.
    pub(crate) fn join(&mut self, index: Index, ask: &Ask, pod: Index) {
        let Some(volume) = self.rows.get_mut(index) else { return };
        let more = volume.conflicts_of(ask);
        match volume.groups.iter_mut().find(|g| g.ask.is(ask)) {
            Some(group) => group.pods.push(pod),
            None => volume.groups.push(Group { ask: ask.clone(), pods: vec![pod] }),
        }
        if volume.conflicts == 0 && more > 0 {
            self.contested.insert(index);
        }
        volume.conflicts += more;
        self.conflicts += more;
    }

    /// Takes a pod from those who ask for this.
    pub(crate) fn leave(&mut self, index: Index, ask: &Ask, pod: Index) {
        let Some(volume) = self.rows.get_mut(index) else { return };
        let Some(at) = volume.groups.iter().position(|g| g.ask.is(ask)) else { return };
        let Some(group) = volume.groups.get_mut(at) else { return };
        let Some(place) = group.pods.iter().position(|&p| p == pod) else { return };
        group.pods.swap_remove(place);
        if group.pods.is_empty() {
            volume.groups.swap_remove(at);
        }
        let less = volume.conflicts_of(ask);
        volume.conflicts -= less;
        self.conflicts -= less;
        if volume.conflicts == 0 && less > 0 {
            self.contested.remove(&index);
        }
        if volume.groups.is_empty()
            && let Some(volume) = self.rows.remove(index)
        {
            self.by_id.remove(&volume.id);
        }
    }

    /// The volumes with conflicts, in the order of their names.
    pub(crate) fn contested(&self) -> impl Iterator<Item = &SharedVolume> {
        let mut all: Vec<_> = self.contested.iter().filter_map(|&index| self.rows.get(index)).collect();
        all.sort_unstable_by_key(|volume| &volume.id);
        all.into_iter()
    }

    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty() && self.contested.is_empty()
    }
}
