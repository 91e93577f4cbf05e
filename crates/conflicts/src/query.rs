//! What can be asked of the engine. Pairs of pods come into being here, one by one.

use std::rc::Rc;

use crate::ask::{Ask, Property};
use crate::conflict::{Conflict, Party};
use crate::engine::Engine;
use crate::index::Index;
use crate::keys::{ClaimKey, PodKey, VolumeId};
use crate::links::Unresolved;
use crate::row::{Row, Side};
use crate::volumes::{Group, SharedVolume};

/// Pods that ask the same of a volume.
#[derive(Debug, Clone, Copy)]
pub struct Users<'e> {
    /// What they ask for.
    pub ask: &'e Ask,
    engine: &'e Engine,
    pods: &'e [Index],
}

impl<'e> Users<'e> {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    /// The pods, in the order of their names.
    pub fn pods(&self) -> impl Iterator<Item = &'e PodKey> + use<'e> {
        let rows = self.pods.iter().filter_map(|&pod| self.engine.rows.get(pod));
        let mut keys: Vec<_> = rows.map(|row| &row.key).collect();
        keys.sort_unstable();
        keys.into_iter()
    }
}

impl Engine {
    /// How many conflicts there are: pairs of pods on a volume, once for each property they differ in.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.volumes.conflicts()
    }

    /// How many conflicts there are on a volume.
    #[must_use]
    pub fn count_on(&self, volume: &VolumeId) -> u64 {
        self.volumes.find(volume).map_or(0, |v| v.conflicts)
    }

    /// The volumes with conflicts and how many each has, in the order of their names.
    pub fn contested(&self) -> impl Iterator<Item = (&VolumeId, u64)> {
        self.volumes.contested().map(|v| (&v.id, v.conflicts))
    }

    /// The users of a volume, by what they ask for.
    pub fn users(&self, volume: &VolumeId) -> impl Iterator<Item = Users<'_>> {
        let groups = self.volumes.find(volume).map_or_else(Vec::new, SharedVolume::in_order);
        groups.into_iter().map(|g| Users { ask: &g.ask, engine: self, pods: &g.pods })
    }

    /// The pods of a volume that conflict with another one, by property and by what they ask for.
    #[must_use]
    pub fn in_conflict(&self, volume: &VolumeId) -> Vec<(Property, Users<'_>)> {
        let groups = self.volumes.find(volume).map_or_else(Vec::new, SharedVolume::in_order);
        let conflicts = |ask: &Ask, property| groups.iter().any(|other| ask.conflicts(&other.ask, property));
        let mut found = Vec::new();
        for &group in &groups {
            let differing = Property::ALL.into_iter().filter(|&property| conflicts(&group.ask, property));
            let users = Users { ask: &group.ask, engine: self, pods: &group.pods };
            found.extend(differing.map(|property| (property, users)));
        }
        found
    }

    /// The UID of a pod, where it is known.
    #[must_use]
    pub fn uid(&self, pod: &PodKey) -> Option<&str> {
        self.row(pod)?.uid()
    }

    /// What a pod asks of which volumes.
    pub fn asks(&self, pod: &PodKey) -> impl Iterator<Item = (&VolumeId, &Ask)> {
        let entries = self.row(pod).into_iter().flat_map(|row| &row.entries);
        entries.filter_map(|e| Some((&self.volumes.get(e.volume)?.id, &e.ask)))
    }

    /// Every conflict once, volume by volume. The order depends on names and labels alone.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict<'_>> {
        self.volumes.contested().flat_map(|volume| self.conflicts_in(volume))
    }

    /// The conflicts on a volume.
    pub fn conflicts_on(&self, volume: &VolumeId) -> impl Iterator<Item = Conflict<'_>> {
        self.volumes.find(volume).into_iter().flat_map(|volume| self.conflicts_in(volume))
    }

    /// The conflicts of a pod, itself first.
    pub fn conflicts_of(&self, pod: &PodKey) -> impl Iterator<Item = Conflict<'_>> {
        let row = self.row(pod);
        let entries = row.into_iter().flat_map(|row| row.entries.iter().map(move |e| (row, e)));
        entries.flat_map(move |(row, entry)| {
            let side = Side { row, manner: entry.manner };
            let volume = self.volumes.get(entry.volume);
            volume.into_iter().flat_map(move |v| self.against(v, &entry.ask, side))
        })
    }

    /// The conflicts that a pod has, or would have, with all that use a volume.
    pub(crate) fn against<'e>(
        &'e self,
        volume: &'e SharedVolume,
        ask: &'e Ask,
        side: Side<'e>,
    ) -> impl Iterator<Item = Conflict<'e>> {
        let others = volume.in_order().into_iter().flat_map(move |group| {
            let differs = move |&p: &Property| ask.conflicts(&group.ask, p);
            Property::ALL.into_iter().filter(differs).map(move |p| (group, p))
        });
        others.flat_map(move |(group, property)| {
            let members = self.members(volume, group).into_iter();
            members.map(move |other| Conflict::of(&volume.id, property, [(side, ask), (other, &group.ask)]))
        })
    }

    fn conflicts_in<'e>(&'e self, volume: &'e SharedVolume) -> impl Iterator<Item = Conflict<'e>> {
        let groups = Rc::new(volume.in_order());
        let pairs = (0..groups.len()).flat_map(move |first| {
            let groups = groups.clone();
            (first + 1..groups.len())
                .filter_map(move |second| Some((*groups.get(first)?, *groups.get(second)?)))
        });
        let differing = pairs.flat_map(|(a, b)| {
            let differs = |&p: &Property| a.ask.conflicts(&b.ask, p);
            Property::ALL.into_iter().filter(differs).map(move |p| (a, b, p))
        });
        differing.flat_map(move |(a, b, property)| {
            let (ones, others) = (self.members(volume, a), Rc::new(self.members(volume, b)));
            ones.into_iter().flat_map(move |one| {
                let others = others.clone();
                (0..others.len()).filter_map(move |at| {
                    let other = *others.get(at)?;
                    Some(Conflict::of(&volume.id, property, [(one, &a.ask), (other, &b.ask)]))
                })
            })
        })
    }

    /// The pods of a group, in the order of their names.
    fn members<'e>(&'e self, volume: &SharedVolume, group: &'e Group) -> Vec<Side<'e>> {
        let sides = group.pods.iter().filter_map(|&pod| {
            let row = self.rows.get(pod)?;
            Some(Side { row, manner: row.entry_on(volume.index)?.manner })
        });
        let mut sides: Vec<_> = sides.collect();
        sides.sort_unstable_by_key(|side| &side.row.key);
        sides
    }

    /// The conflict of two pods that have one.
    pub(crate) fn conflict_of<'e>(
        &'e self,
        volume: &VolumeId,
        property: Property,
        pods: [&PodKey; 2],
    ) -> Option<Conflict<'e>> {
        let volume = self.volumes.find(volume)?;
        let side = |pod: &PodKey| {
            let row = self.row(pod)?;
            let entry = row.entry_on(volume.index)?;
            Some((Side { row, manner: entry.manner }, &entry.ask))
        };
        let [a, b] = pods;
        Some(Conflict::of(&volume.id, property, [side(a)?, side(b)?]))
    }

    /// The conflicts as upstream's metric has them: each seen from both sides, and those of two pods
    /// that differ in the same way on several volumes once.
    pub fn records(&self) -> impl Iterator<Item = Conflict<'_>> {
        let first = self.conflicts().filter(|c| self.first_of_its_kind(c));
        first.flat_map(|c| [c, c.turned()])
    }

    /// The first of these records, at most so many, and how many conflicts those that are left out stand for. It costs
    /// what it returns, however many conflicts there are.
    #[must_use]
    pub fn first_records(&self, most: usize) -> (Vec<Conflict<'_>>, u64) {
        let (mut records, mut seen) = (Vec::new(), 0);
        for conflict in self.conflicts() {
            if records.len() + 2 > most {
                break;
            }
            seen += 1;
            if self.first_of_its_kind(&conflict) {
                records.extend([conflict, conflict.turned()]);
            }
        }
        (records, self.count().saturating_sub(seen))
    }

    fn first_of_its_kind(&self, conflict: &Conflict<'_>) -> bool {
        let [a, b] = conflict.sides;
        if a.row.entries.len() == 1 || b.row.entries.len() == 1 {
            return true;
        }
        let shared = a.row.entries.iter().filter_map(|e| Some((e, b.row.entry_on(e.volume)?)));
        let same = shared.filter(|(ours, theirs)| {
            let values = (ours.ask.value(conflict.property), theirs.ask.value(conflict.property));
            ours.ask.conflicts(&theirs.ask, conflict.property)
                && values == (conflict.a.value, conflict.b.value)
        });
        let ids = same.filter_map(|(ours, _)| self.volumes.get(ours.volume)).map(|v| &v.id);
        ids.min() == Some(conflict.volume)
    }

    /// The claims that pods use and that lead to no volume, and why: what is not known there cannot be
    /// judged. In no order.
    pub fn unresolved(&self) -> impl Iterator<Item = (&ClaimKey, Unresolved)> {
        self.links.unresolved()
    }

    /// The CSI drivers that volumes name and whose objects are not known. They count as unable to mount
    /// with a label. In no order.
    pub fn undeclared_drivers(&self) -> impl Iterator<Item = &str> {
        self.links.undeclared()
    }

    pub(crate) fn row(&self, pod: &PodKey) -> Option<&Row> {
        self.rows.get(*self.pods.get(pod)?)
    }
}

impl<'e> Conflict<'e> {
    pub(crate) fn of(
        volume: &'e VolumeId,
        property: Property,
        [(a, of_a), (b, of_b)]: [(Side<'e>, &'e Ask); 2],
    ) -> Self {
        let party = |side: Side<'e>, ask: &'e Ask| Party { pod: &side.row.key, value: ask.value(property) };
        Self { volume, property, a: party(a, of_a), b: party(b, of_b), sides: [a, b] }
    }
}
