//! The engine against a model that looks at every pair every time, over histories by chance.
//!
//! `PROPTEST_CASES` sets how many (100 000), `WARDLET_SEED` the seed of the first, which is printed.

use crate::model;

use std::collections::{BTreeMap, BTreeSet};

use conflicts::*;
use model::dice::{self, Dice};
use model::{Fact, Weight, World};

fn cases() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

fn first_seed() -> u64 {
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_secs());
    let seed = std::env::var("WARDLET_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(clock);
    println!("WARDLET_SEED={seed}");
    seed
}

/// Tries a property on many seeds; names the one that breaks it.
fn for_seeds(property: impl Fn(&mut Dice)) {
    let first = first_seed();
    for seed in (0..cases()).map(|n| first.wrapping_add(n)) {
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| property(&mut Dice::new(seed))));
        if let Err(why) = tried {
            println!("fails alone with PROPTEST_CASES=1 WARDLET_SEED={seed}");
            std::panic::resume_unwind(why);
        }
    }
}

fn sorted(mut sides: [(PodKey, String); 2]) -> [(PodKey, String); 2] {
    sides.sort();
    sides
}

fn party(party: Party<'_>) -> (PodKey, String) {
    (party.pod.clone(), party.value.to_string())
}

fn fact(c: Conflict<'_>) -> Fact {
    (c.volume.clone(), c.property, sorted([party(c.a), party(c.b)]))
}

fn ended(c: Ended<'_>) -> Fact {
    (c.volume.clone(), c.property, sorted([party(c.a), party(c.b)]))
}

/// As a set, each counted once.
fn set(facts: impl Iterator<Item = Fact>) -> BTreeSet<Fact> {
    let all: Vec<_> = facts.collect();
    let set: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(all.len(), set.len(), "one conflict came twice");
    set
}

fn weigh(c: Conflict<'_>) -> (Fact, Weight) {
    let s = c.sharing();
    (fact(c), (c.meeting(), c.reach(), (s.sub_paths, s.privileged, s.read_only)))
}

fn keys(conflicts: &BTreeMap<Fact, Weight>) -> BTreeSet<Fact> {
    conflicts.keys().cloned().collect()
}

#[test]
fn the_engine_finds_what_looking_at_every_pair_finds() {
    for_seeds(|dice| {
        let rules = dice::rules(dice);
        let (mut engine, mut world) = (Engine::new(rules.clone()), World::default());
        let mut before = BTreeSet::new();
        for _ in 0..8 + dice.below(10) {
            let change = dice::change(dice);
            world.apply(&change);
            let effects = engine.apply(&change);
            let expected = world.conflicts(&rules);
            let after = keys(&expected);
            assert_eq!(set(engine.conflicts().map(fact)), after, "after {change:?}");
            assert_eq!(usize::try_from(engine.count()).unwrap(), after.len());
            let caused: BTreeSet<_> = after.difference(&before).cloned().collect();
            assert_eq!(set(effects.caused(&engine).map(fact)), caused, "caused by {change:?}");
            let gone: BTreeSet<_> = before.difference(&after).cloned().collect();
            assert_eq!(set(effects.ended(&engine).map(ended)), gone, "ended by {change:?}");
            before = after;
        }
        at_the_end(&engine, &world);
        trial(dice, &engine, &world);
        take_all_away(engine, &world);
    });
}

/// What need not be looked at after every change.
fn at_the_end(engine: &Engine, world: &World) {
    let expected = world.conflicts(engine.rules());
    assert_eq!(engine.conflicts().map(weigh).collect::<BTreeMap<_, _>>(), expected);
    counts(engine, &expected);
    records(engine, &expected);
    events(engine, &expected);
    for key in world.pods.keys() {
        let concerns = |(_, _, sides): &Fact| sides.iter().any(|side| side.0 == *key);
        let own: BTreeSet<_> = keys(&expected).into_iter().filter(concerns).collect();
        assert_eq!(set(engine.conflicts_of(key).map(fact)), own);
        assert!(engine.conflicts_of(key).all(|c| c.a.pod == key));
    }
    let multiple = engine.remarks().filter(|r| matches!(r.says, Says::MultipleLabels { .. }));
    let multiple: BTreeSet<_> = multiple.map(|r| (r.pod.clone(), r.volume.clone())).collect();
    assert_eq!(multiple, world.multiple_labels(engine.rules()));
}

fn counts(engine: &Engine, expected: &BTreeMap<Fact, Weight>) {
    let mut counted: BTreeMap<VolumeId, u64> = BTreeMap::new();
    for (volume, ..) in expected.keys() {
        *counted.entry(volume.clone()).or_default() += 1;
    }
    let contested: BTreeMap<_, _> = engine.contested().map(|(id, n)| (id.clone(), n)).collect();
    assert_eq!(contested, counted);
}

/// Both directions, and the same pair on two volumes once.
fn records(engine: &Engine, expected: &BTreeMap<Fact, Weight>) {
    let listed: Vec<_> = engine.records().map(|c| (c.property, party(c.a), party(c.b))).collect();
    let mut all = BTreeSet::new();
    for (_, property, [a, b]) in expected.keys() {
        all.insert((*property, a.clone(), b.clone()));
        all.insert((*property, b.clone(), a.clone()));
    }
    assert_eq!(listed.len(), all.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), all);
}

/// A pod has an event about a volume and a property exactly if it has a conflict there.
fn events(engine: &Engine, expected: &BTreeMap<Fact, Weight>) {
    let mut pods = BTreeSet::new();
    for (volume, property, sides) in expected.keys() {
        pods.extend(sides.iter().map(|side| (volume.clone(), *property, side.0.clone())));
    }
    let mut found = BTreeSet::new();
    for (volume, _) in engine.contested() {
        for (property, users) in engine.in_conflict(volume) {
            found.extend(users.pods().map(|pod| (volume.clone(), property, pod.clone())));
        }
    }
    assert_eq!(found, pods);
    for (volume, property, pod) in &pods {
        assert!(engine.event_for(pod, volume, *property).is_some(), "{pod} on {volume}");
    }
    let (all, left) = engine.first_records(usize::MAX);
    assert_eq!((all.len(), left), (engine.records().count(), 0));
}

/// What would be is what is, once it has been done.
fn trial(dice: &mut Dice, engine: &Engine, world: &World) {
    let mut pods = vec![dice::pod(dice), dice::pod(dice)];
    pods.dedup_by(|a, b| a.key == b.key);
    let mut after = world.clone();
    pods.iter().for_each(|pod| after.apply(&Change::Pod(pod.clone())));
    let theirs = |(_, _, sides): &Fact| sides.iter().any(|s| pods.iter().any(|p| p.key == s.0));
    let expected: BTreeMap<_, _> =
        after.conflicts(engine.rules()).into_iter().filter(|(fact, _)| theirs(fact)).collect();
    let trial = engine.trial(&pods);
    assert_eq!(trial.conflicts().map(weigh).collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(trial.conflicts().count(), expected.len());
}

fn take_all_away(mut engine: Engine, world: &World) {
    for change in world.all_gone() {
        engine.apply(&change);
    }
    assert_eq!(engine.count(), 0);
    assert!(engine.is_empty(), "something is left: {engine:?}");
}

#[test]
fn the_same_objects_have_the_same_conflicts_in_whatever_order_they_came() {
    for_seeds(|dice| {
        let rules = dice::rules(dice);
        let mut world = World::default();
        for _ in 0..14 {
            world.apply(&dice::coming(dice));
        }
        let mut all = world.all();
        let mut listed = None;
        for _ in 0..3 {
            dice.shuffle(&mut all);
            let mut engine = Engine::new(rules.clone());
            for change in &all {
                engine.apply(change);
            }
            let found: Vec<_> = engine.conflicts().map(|c| (weigh(c), party(c.a), party(c.b))).collect();
            assert_eq!(*listed.get_or_insert_with(|| found.clone()), found);
        }
    });
}
