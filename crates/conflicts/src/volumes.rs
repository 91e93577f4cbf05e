//! The pods of each volume, by what they ask for.

use slab::Slab;
use smallvec::SmallVec;

use crate::ask::Ask;
use crate::index::Index;
use crate::keys::VolumeId;
use crate::maps::HashMap;

/// All volumes that pods ask something of.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    rows: Slab<SharedVolume>,
    by_id: HashMap<VolumeId, Index>,
    /// Those with conflicts, in no order; each knows where it is in here.
    contested: Vec<Index>,
    conflicts: u64,
}

/// A volume.
#[derive(Debug)]
pub(crate) struct SharedVolume {
    pub(crate) id: VolumeId,
    /// Its own place.
    pub(crate) index: Index,
    /// In no order; none is empty. Most volumes have one group of few pods, which lies here and nowhere
    /// else: what an event costs is the places in memory that it looks at.
    pub(crate) groups: SmallVec<[Group; 1]>,
    /// Pairs of pods, counted once for each property they differ in.
    pub(crate) conflicts: u64,
    /// Its place among the contested, while it has conflicts.
    rank: usize,
}

/// Pods that ask for the same.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) ask: Ask,
    /// In no order: to keep one would be to look at the others' names with every change.
    pub(crate) pods: SmallVec<[Index; 4]>,
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
        let vacant = self.rows.vacant_entry();
        let index = vacant.key();
        let volume = SharedVolume { id: id.clone(), index, groups: SmallVec::new(), conflicts: 0, rank: 0 };
        vacant.insert(volume);
        self.by_id.insert(id.clone(), index);
        index
    }

    /// The same, for a caller that knows its former index: one of `places`, if any is still its own.
    pub(crate) fn index_among(&mut self, id: &VolumeId, mut places: impl Iterator<Item = Index>) -> Index {
        let own = |&place: &Index| self.rows.get(place).is_some_and(|volume| volume.id.is(id));
        match places.find(own) {
            Some(place) => place,
            None => self.index_of(id),
        }
    }

    pub(crate) fn get(&self, index: Index) -> Option<&SharedVolume> {
        self.rows.get(index)
    }

    pub(crate) fn find(&self, id: &VolumeId) -> Option<&SharedVolume> {
        self.rows.get(*self.by_id.get(id)?)
    }

    /// Adds a pod, which is not there yet, to the pods that ask for this.
    pub(crate) fn join(&mut self, index: Index, ask: &Ask, pod: Index) {
        let Some(volume) = self.rows.get_mut(index) else { return };
        let more = volume.conflicts_of(ask);
        match volume.groups.iter_mut().find(|g| g.ask.is(ask)) {
            Some(group) => group.pods.push(pod),
            None => volume.groups.push(Group { ask: ask.clone(), pods: SmallVec::from_slice(&[pod]) }),
        }
        if volume.conflicts == 0 && more > 0 {
            volume.rank = self.contested.len();
            self.contested.push(index);
        }
        volume.conflicts += more;
        self.conflicts += more;
    }

    /// Removes a pod from the pods that ask for this.
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
        let (settled, unused, rank) =
            (volume.conflicts == 0 && less > 0, volume.groups.is_empty(), volume.rank);
        if settled {
            self.settled(rank);
        }
        if unused && let Some(volume) = self.rows.try_remove(index) {
            self.by_id.remove(&volume.id);
        }
    }

    /// The contested one of this rank is so no more; the last takes its rank.
    fn settled(&mut self, rank: usize) {
        if rank >= self.contested.len() {
            return;
        }
        self.contested.swap_remove(rank);
        let moved = self.contested.get(rank).and_then(|&index| self.rows.get_mut(index));
        if let Some(moved) = moved {
            moved.rank = rank;
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
