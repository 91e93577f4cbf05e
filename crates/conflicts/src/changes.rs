//! The conflicts that a change caused and ended.

use crate::ask::{Ask, Property};
use crate::conflict::{Conflict, Party};
use crate::effects::{Effects, Step};
use crate::engine::Engine;
use crate::keys::{PodKey, VolumeId};
use crate::maps::HashMap;

/// A conflict that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended<'e> {
    /// The volume.
    pub volume: &'e VolumeId,
    /// In what the two pods differed.
    pub property: Property,
    /// The pod that changed.
    pub a: Party<'e>,
    /// The other.
    pub b: Party<'e>,
}

/// What two pods ask of a volume at one time.
#[derive(Debug, Clone, Copy)]
struct Pair<'e>(Option<&'e Ask>, Option<&'e Ask>);

impl<'e> Pair<'e> {
    fn conflict(self, property: Property) -> Option<[&'e Ask; 2]> {
        let (a, b) = (self.0?, self.1?);
        a.conflicts(b, property).then_some([a, b])
    }

    /// Whether this pair has a conflict that the other has not, or not with these values.
    fn beyond(self, other: Self, property: Property) -> Option<[&'e Ask; 2]> {
        let ours = self.conflict(property)?;
        let values = |pair: [&'e Ask; 2]| pair.map(|ask| ask.value(property));
        let same = other.conflict(property).is_some_and(|theirs| values(theirs) == values(ours));
        (!same).then_some(ours)
    }
}

/// The other pod of a pair, before and after.
#[derive(Debug, Clone, Copy)]
struct Other<'e> {
    pod: &'e PodKey,
    before: Option<&'e Ask>,
    after: Option<&'e Ask>,
}

impl<'e> Other<'e> {
    fn of(step: &'e Step) -> Self {
        Self { pod: &step.pod, before: step.before.as_ref(), after: step.after.as_ref() }
    }
}

/// Which step concerns which pod on which volume.
type Places<'e> = HashMap<&'e VolumeId, HashMap<&'e PodKey, usize>>;

impl Effects {
    /// The conflicts that the change caused, each once, a pod that changed first. One whose values
    /// changed has ended and another begun.
    pub fn caused<'e>(&'e self, engine: &'e Engine) -> impl Iterator<Item = Conflict<'e>> {
        self.pairs(engine).flat_map(move |(step, other)| {
            let (before, after) = pairs(step, other);
            let begun = move |&p: &Property| after.beyond(before, p).is_some();
            let found = move |p| engine.conflict_of(&step.volume, p, [&step.pod, other.pod]);
            Property::ALL.into_iter().filter(begun).filter_map(found)
        })
    }

    /// The conflicts that the change ended, each once, a pod that changed first.
    pub fn ended<'e>(&'e self, engine: &'e Engine) -> impl Iterator<Item = Ended<'e>> {
        self.pairs(engine).flat_map(|(step, other)| {
            let (before, after) = pairs(step, other);
            Property::ALL.into_iter().filter_map(move |property| {
                let [a, b] = before.beyond(after, property)?;
                let party = |pod, ask: &'e Ask| Party { pod, value: ask.value(property) };
                let (a, b) = (party(&step.pod, a), party(other.pod, b));
                Some(Ended { volume: &step.volume, property, a, b })
            })
        })
    }

    /// Every pair that may have changed, once.
    fn pairs<'e>(&'e self, engine: &'e Engine) -> impl Iterator<Item = (&'e Step, Other<'e>)> {
        let mut places = Places::default();
        for (at, step) in self.steps.iter().enumerate() {
            places.entry(&step.volume).or_default().insert(&step.pod, at);
        }
        self.steps.iter().enumerate().flat_map(move |(at, step)| {
            let moved = places.get(&step.volume);
            let mut others: Vec<Other<'e>> = moved.map_or_else(Vec::new, |moved| {
                let earlier = moved.values().filter(|&&other| other < at);
                earlier.filter_map(|&other| self.steps.get(other)).map(Other::of).collect()
            });
            others.sort_unstable_by_key(|other| other.pod);
            let still = |pod: &PodKey| moved.is_none_or(|moved| !moved.contains_key(pod));
            others.extend(unmoved(step, engine).filter(|other| still(other.pod)));
            others.into_iter().map(move |other| (step, other))
        })
    }
}

/// The pods on the volume of a step that conflict with what its pod asked or asks for.
fn unmoved<'e>(step: &'e Step, engine: &'e Engine) -> impl Iterator<Item = Other<'e>> {
    let volume = engine.volumes.find(&step.volume);
    let groups = volume.into_iter().flat_map(|volume| &volume.groups);
    let differs = |a: &Option<Ask>, b: &Ask| a.as_ref().is_some_and(|a| a.differences(b) > 0);
    let touched = groups.filter(move |g| differs(&step.before, &g.ask) || differs(&step.after, &g.ask));
    touched.flat_map(|group| {
        let rows = group.pods.iter().filter_map(|&pod| engine.rows.get(pod));
        rows.map(|row| Other { pod: &row.key, before: Some(&group.ask), after: Some(&group.ask) })
    })
}

fn pairs<'e>(step: &'e Step, other: Other<'e>) -> (Pair<'e>, Pair<'e>) {
    (Pair(step.before.as_ref(), other.before), Pair(step.after.as_ref(), other.after))
}
