//! What would be, if pods were others.

use crate::ask::Property;
use crate::conflict::Conflict;
use crate::engine::Engine;
use crate::keys::PodKey;
use crate::maps::HashSet;
use crate::objects::{Life, Pod};
use crate::pools::Pools;
use crate::remarks::Remark;
use crate::row::{Named, Row, Side};
use crate::wishes::{Wish, Wishes, wishes};

/// The cluster as it would be with these pods in the place of those of the same names. The engine does
/// not change; it costs what the pods' own volumes cost.
#[derive(Debug)]
pub struct Trial<'e> {
    engine: &'e Engine,
    pods: Vec<(Row, Wishes)>,
    names: HashSet<PodKey>,
}

impl Engine {
    /// What would be, if these pods came, or were as they are here.
    #[must_use]
    pub fn trial(&self, pods: &[Pod]) -> Trial<'_> {
        let mut pools = Pools::default();
        let alive = pods.iter().filter(|pod| pod.life == Life::Alive);
        let tried = alive.map(|pod| {
            let mut names = |named: Named<'_>| match named {
                Named::Claim(pod, name) => self.links.find_claim(&pod.claim(name)),
                Named::Driver(name) => self.links.find_driver(name),
            };
            let row = Row::of(pod, &self.rules, &mut pools, &mut names);
            let wishes = wishes(&self.links, &self.rules, &self.pools, &row);
            (row, wishes)
        });
        let pods_tried = tried.collect();
        Trial { engine: self, pods: pods_tried, names: pods.iter().map(|p| p.key.clone()).collect() }
    }
}

impl Trial<'_> {
    /// The conflicts that these pods would have with others and with each other, each once, one of
    /// these pods first.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict<'_>> {
        let wishes = self.pods.iter().enumerate();
        let wishes = wishes.flat_map(|(at, (row, all))| all.iter().map(move |wish| (at, row, wish)));
        wishes.flat_map(move |(at, row, wish)| {
            let side = Side { row, manner: wish.manner };
            let volume = self.engine.volumes.find(&wish.id);
            let others = volume.into_iter().flat_map(move |v| self.engine.against(v, &wish.ask, side));
            let others = others.filter(|c| !self.names.contains(c.b.pod));
            others.chain(self.among(at, wish, side))
        })
    }

    /// The conflicts with those before this one.
    fn among<'t>(&'t self, at: usize, wish: &'t Wish, side: Side<'t>) -> impl Iterator<Item = Conflict<'t>> {
        let earlier = self.pods.iter().take(at);
        let same = earlier.flat_map(|(row, all)| all.iter().map(move |other| (row, other)));
        same.filter(|(_, other)| other.id == wish.id).flat_map(move |(row, other)| {
            let other_side = Side { row, manner: other.manner };
            let differs = |&p: &Property| wish.ask.conflicts(&other.ask, p);
            let sides = [(side, &wish.ask), (other_side, &other.ask)];
            Property::ALL.into_iter().filter(differs).map(move |p| Conflict::of(&wish.id, p, sides))
        })
    }

    /// What there would be to say about these pods alone.
    pub fn remarks(&self) -> impl Iterator<Item = Remark<'_>> {
        self.pods.iter().flat_map(|(row, _)| self.engine.remarks_on(row))
    }
}
