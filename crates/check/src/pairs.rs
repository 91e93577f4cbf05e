//! The engine's conflicts, pod by pod, as conflicts of workloads.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use conflicts::{Ask, Engine, Meeting, Node, Placement, Pod, PodKey, Property, Reach, Sharing, VolumeId};
use inventory::{ClusterSnapshot, EquivalentPods};

use crate::crowd::crowds;
use crate::report::{Conflict, ConflictSide, ObjectRef, Severity, When};

/// Two workloads that differ in a property on a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PairKey {
    pub(crate) volume: VolumeId,
    pub(crate) property: Property,
    pub(crate) a: (ObjectRef, String),
    pub(crate) b: (ObjectRef, String),
}

/// All pairs of pods that two workloads have so.
#[derive(Debug)]
pub(crate) struct Pair {
    /// How many pods each has.
    pods: [Pods; 2],
    pairs: u64,
    nearest: Nearest,
}

/// Pods of one workload. Those of one policy may have several labels: each group of them counts once.
#[derive(Debug, Clone, Default)]
struct Pods {
    groups: BTreeMap<usize, u64>,
    /// One that was seen.
    live: Option<String>,
}

/// What is gravest among pairs of pods.
#[derive(Debug, Clone, Copy)]
struct Nearest {
    meeting: Meeting,
    reach: Reach,
    sharing: Sharing,
}

/// One workload's pods that ask the same of a volume, or a crowd's.
struct Group<'a> {
    ask: &'a Ask,
    workload: Cow<'a, ObjectRef>,
    equivalents: Vec<&'a EquivalentPods>,
}

/// In which group each pod is.
type Places<'a> = HashMap<&'a PodKey, usize>;

/// No more kinds of pods than this are looked at for one side. With more of them, two sides are taken to be
/// able to meet: a conflict too many can be looked into, one too few cannot.
const KINDS: usize = 64;

/// Conflicts by workload. Pods are counted, not paired: only as many of each workload are looked at as
/// differ in where they can go.
pub(crate) fn pairs(engine: &Engine, snapshot: &ClusterSnapshot) -> BTreeMap<PairKey, Pair> {
    let mut found = BTreeMap::new();
    for (volume, _) in engine.contested() {
        let groups = groups(engine, snapshot, volume);
        let places: Places<'_> = groups.iter().enumerate().flat_map(|(at, group)| group.places(at)).collect();
        let nearest: Vec<_> =
            groups.iter().map(|group| nearest(engine, volume, &places, group, &groups)).collect();
        for ((at, a), nearest) in groups.iter().enumerate().zip(&nearest) {
            for (other, b) in groups.iter().enumerate().skip(at + 1) {
                for property in Property::ALL.into_iter().filter(|p| a.ask.conflicts(b.ask, *p)) {
                    let Some(nearest) = nearest.get(&(property, other)).copied() else { continue };
                    let (key, new) = pair(volume, property, [(at, a), (other, b)], nearest);
                    match found.get_mut(&key) {
                        Some(known) => Pair::add(known, &new),
                        None => drop(found.insert(key, new)),
                    }
                }
            }
        }
    }
    found
}

fn groups<'a>(engine: &'a Engine, snapshot: &'a ClusterSnapshot, volume: &VolumeId) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    for users in engine.users(volume) {
        let equivalents = users.pods().filter_map(|pod| snapshot.equivalents.get(pod));
        groups.extend(crowds(equivalents).into_iter().map(|(workload, equivalents)| Group {
            ask: users.ask,
            workload,
            equivalents,
        }));
    }
    groups
}

/// The gravest between one side and each other, by what they differ in and the other's place.
fn nearest<'a>(
    engine: &'a Engine,
    volume: &VolumeId,
    places: &Places<'a>,
    side: &Group<'a>,
    all: &[Group<'a>],
) -> BTreeMap<(Property, usize), Nearest> {
    let telling = side.telling(all);
    let mut found: BTreeMap<(Property, usize), Nearest> = BTreeMap::new();
    for equivalent in telling.equivalents {
        for conflict in engine.conflicts_of(&equivalent.pod.key).filter(|c| c.volume == volume) {
            let Some(&other) = places.get(conflict.b.pod) else { continue };
            let meeting = conflict.meeting();
            let meeting = if telling.is_all { meeting } else { meeting.max(Meeting::MayMeet) };
            let new = Nearest { meeting, reach: conflict.reach(), sharing: conflict.sharing() };
            let known = found.entry((conflict.property, other)).or_insert(new);
            known.meeting = known.meeting.max(new.meeting);
            known.reach = known.reach.max(new.reach);
        }
    }
    found
}

/// Pods that tell how near all of a group are to others.
struct Telling<'a> {
    equivalents: Vec<&'a EquivalentPods>,
    /// Whether every kind of pod in the group is among them.
    is_all: bool,
}

impl<'a> Group<'a> {
    fn places(&self, at: usize) -> impl Iterator<Item = (&'a PodKey, usize)> {
        self.equivalents.iter().map(move |equivalent| (&equivalent.pod.key, at))
    }

    /// One of each kind but for its node, and one on a node with each other side, where there is one.
    fn telling(&self, all: &[Self]) -> Telling<'a> {
        let mut equivalents: Vec<&EquivalentPods> = Vec::new();
        let mut is_all = true;
        for equivalent in &self.equivalents {
            if equivalents.iter().any(|known| is_alike(&known.pod, &equivalent.pod)) {
                continue;
            }
            if equivalents.len() == KINDS {
                is_all = false;
                break;
            }
            equivalents.push(equivalent);
        }
        let own: BTreeMap<&str, &EquivalentPods> = self
            .equivalents
            .iter()
            .filter_map(|equivalent| Some((equivalent.node()?, *equivalent)))
            .collect();
        for other in all {
            let met = other.equivalents.iter().filter_map(|equivalent| own.get(equivalent.node()?)).next();
            equivalents
                .extend(met.filter(|met| !equivalents.iter().any(|known| known.pod.key == met.pod.key)));
        }
        Telling { equivalents, is_all }
    }
}

/// Whether two pods are the same but for which node they are on.
fn is_alike(a: &Pod, b: &Pod) -> bool {
    let kind = |pod: &Pod| match &pod.placement.node {
        Node::Unbound => 0,
        Node::Bound(_) => 1,
        Node::Pinned(_) => 2,
    };
    let placed = |pod: &Pod| Placement { node: Node::Unbound, ..pod.placement.clone() };
    kind(a) == kind(b) && a.volumes == b.volumes && placed(a) == placed(b)
}

impl Pods {
    fn of(index: usize, group: &Group<'_>) -> Self {
        let live = group.equivalents.iter().find(|equivalent| equivalent.is_live);
        let count = group.equivalents.iter().map(|equivalent| equivalent.count).sum();
        let live = live.map(|equivalent| equivalent.pod.key.name().to_owned());
        Self { groups: BTreeMap::from([(index, count)]), live }
    }

    fn count(&self) -> u64 {
        self.groups.values().sum()
    }

    fn add(&mut self, other: &Self) {
        self.groups.extend(&other.groups);
        self.live = self.live.take().or_else(|| other.live.clone());
    }
}

impl Pair {
    fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.nearest.meeting = self.nearest.meeting.max(other.nearest.meeting);
        self.nearest.reach = self.nearest.reach.max(other.nearest.reach);
        self.pods.iter_mut().zip(&other.pods).for_each(|(ours, theirs)| ours.add(theirs));
    }
}

fn pair(
    volume: &VolumeId,
    property: Property,
    groups: [(usize, &Group<'_>); 2],
    nearest: Nearest,
) -> (PairKey, Pair) {
    let named = groups.map(|(index, group)| {
        let key = (group.workload.clone().into_owned(), group.ask.value(property).to_string());
        (key, Pods::of(index, group))
    });
    let [a, b] = named;
    let (a, b) = if a.0 <= b.0 { (a, b) } else { (b, a) };
    let pairs = a.1.count().saturating_mul(b.1.count());
    let key = PairKey { volume: volume.clone(), property, a: a.0, b: b.0 };
    (key, Pair { pods: [a.1, b.1], pairs, nearest })
}

/// The conflicts under the gates before and after the upgrade.
pub(crate) fn conflicts(before: &BTreeMap<PairKey, Pair>, after: &BTreeMap<PairKey, Pair>) -> Vec<Conflict> {
    let workloads = |key: &PairKey| (key.volume.clone(), key.a.0.clone(), key.b.0.clone());
    let enforced = |pairs: &BTreeMap<PairKey, Pair>| {
        let strict = pairs.iter().filter(|(_, pair)| pair.nearest.reach == Reach::Enforced);
        strict.map(|(key, _)| workloads(key)).collect::<BTreeSet<_>>()
    };
    let (was, will) = (enforced(before), enforced(after));
    let mentioned: BTreeSet<_> = after.keys().map(workloads).collect();
    let gone = before.iter().filter(|(key, _)| !mentioned.contains(&workloads(key)));
    let all = after.iter().chain(gone).map(|(key, pair)| {
        let both = workloads(key);
        conflict(key, pair, when(was.contains(&both), will.contains(&both)))
    });
    let mut all: Vec<Conflict> = all.collect();
    all.sort_by(|a, b| a.volume.cmp(&b.volume));
    all
}

/// When something that is enforced before, after, both or neither stands in the way.
pub(crate) fn when(before: bool, after: bool) -> When {
    match (before, after) {
        (false, true) => When::AfterUpgrade,
        (true, true) => When::Already,
        (true, false) => When::UntilUpgrade,
        (false, false) => When::UnderSelinuxMount,
    }
}

fn conflict(key: &PairKey, pair: &Pair, when: When) -> Conflict {
    let side = |(workload, value): &(ObjectRef, String), pods: &Pods| ConflictSide {
        workload: workload.clone(),
        value: value.clone(),
        pod: pods.live.clone(),
        pods: pods.count(),
    };
    let [of_a, of_b] = &pair.pods;
    Conflict {
        property: key.property,
        volume: key.volume.to_string(),
        a: side(&key.a, of_a),
        b: side(&key.b, of_b),
        severity: severity(pair.nearest.meeting),
        why: why(pair.nearest),
        when,
        pairs: pair.pairs,
    }
}

fn severity(meeting: Meeting) -> Severity {
    match meeting {
        Meeting::OnOneNode => Severity::OnOneNode,
        Meeting::MustMeet => Severity::MustMeet,
        Meeting::MayMeet => Severity::MayMeet,
        Meeting::CannotMeet(_) => Severity::CannotMeet,
    }
}

fn why(nearest: Nearest) -> String {
    let mut why = format!("they {}", nearest.meeting);
    let ways = [
        (nearest.sharing.sub_paths, "both mount parts of the volume only"),
        (nearest.sharing.privileged, "one of them is privileged"),
        (nearest.sharing.read_only, "both only read it"),
    ];
    for (_, way) in ways.iter().filter(|(holds, _)| *holds) {
        why.push_str("; ");
        why.push_str(way);
    }
    why
}

#[cfg(test)]
mod tests;
