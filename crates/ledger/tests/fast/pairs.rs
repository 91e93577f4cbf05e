//! Category pairs without a block: of sandboxes and containers that lease no IDs.

use crate::common;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use common::{Node, default_pool, holder, lease, pool};
use ledger::{
    BootId, Categories, HeldPair, LeaseRequest, Ledger, LedgerError, PairInUse, PairOrigin, PairUser,
};
use proptest::prelude::*;
use selinux::CategoryPair;

const STATE: &str = "/state/sandboxes";

/// For tests with many changes that are not about the disk.
fn in_memory() -> Node {
    let (mut node, memory) = (Node::new(), Path::new("/dev/shm"));
    if memory.is_dir() {
        node.dir = tempfile::tempdir_in(memory).unwrap();
    }
    node
}

fn place(name: &str) -> PathBuf {
    Path::new(STATE).join(name)
}

fn user(name: &str) -> PairUser {
    PairUser { holder: holder(name), place: place(name) }
}

fn in_use(name: &str, pair: CategoryPair, origin: PairOrigin) -> PairInUse {
    PairInUse { user: user(name), pair, origin }
}

fn pair(low: u32, high: u32) -> CategoryPair {
    CategoryPair::new(low, high).unwrap()
}

fn allocate(ledger: &Ledger, name: &str) -> CategoryPair {
    ledger.allocate_pair(user(name), vec![]).unwrap()
}

fn labelled(ledger: &Ledger, name: &str) -> CategoryPair {
    let request = LeaseRequest { categories: Categories::Pair, ..LeaseRequest::new(holder(name)) };
    ledger.lease(request).unwrap().categories.unwrap()
}

fn is_there(node: &Node, name: &str) {
    node.witness.remaining.lock().unwrap().push(place(name));
}

fn is_gone(node: &Node, name: &str) {
    node.witness.remaining.lock().unwrap().retain(|left| *left != place(name));
}

/// Holder, pair and whether it was given back.
fn told(ledger: &Ledger) -> Vec<(String, CategoryPair, bool)> {
    let told = |held: HeldPair| (held.holder.to_string(), held.pair, held.released);
    ledger.pairs().unwrap().into_iter().map(told).collect()
}

#[test]
fn a_sandbox_has_one_pair_and_no_other_has_it() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let pairs: HashSet<_> = (0..200).map(|i| allocate(&ledger, &format!("box-{i}"))).collect();
    assert_eq!(pairs.len(), 200);
    assert_eq!(allocate(&node.open(default_pool()), "box-7"), allocate(&ledger, "box-7"), "asked again");
    assert_eq!(ledger.pairs().unwrap().len(), 200);
    let leased: HashSet<_> = (0..50).map(|i| labelled(&ledger, &format!("pod-{i}"))).collect();
    assert!(leased.len() == 50 && leased.is_disjoint(&pairs));
}

#[test]
fn leases_and_sandboxes_never_share_a_pair() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    // The pair that the next lease would have, and the one that this sandbox would.
    ledger.reserve_pair(user("low"), pair(0, 1)).unwrap();
    assert_eq!(labelled(&ledger, "pod"), pair(0, 2));
    let wanted = allocate(&ledger, "box");
    ledger.release_pair(holder("box")).unwrap();
    ledger.reserve_pair(user("first"), wanted).unwrap();
    assert_ne!(allocate(&ledger, "box"), wanted);
}

#[test]
fn a_named_pair_can_be_named_again_and_that_of_a_lease_too() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let leased = labelled(&ledger, "pod-uid");
    for name in ["box-1", "box-2"] {
        ledger.reserve_pair(user(name), leased).unwrap();
        ledger.reserve_pair(user(name), leased).unwrap();
    }
    assert_eq!(ledger.pair_conflicts().unwrap(), []);
    // It is in use until the last one is gone.
    ledger.release_pair(holder("box-1")).unwrap();
    assert_eq!(told(&ledger), [("box-2".to_owned(), leased, false)]);
}

#[test]
fn a_pair_that_was_allocated_cannot_be_named() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let taken = allocate(&ledger, "box");
    let refused = ledger.reserve_pair(user("other"), taken).unwrap_err();
    assert!(
        matches!(&refused, LedgerError::PairTaken { by, pair, .. } if *by == holder("box") && *pair == taken),
        "{refused}"
    );
    assert!(refused.hint().is_some());
    let refused = ledger.reserve_pair(user("box"), pair(3, 4)).unwrap_err();
    assert!(matches!(refused, LedgerError::HasPair { has, .. } if has == taken), "{refused}");
    ledger.release_pair(holder("box")).unwrap();
    ledger.reserve_pair(user("other"), taken).unwrap();
    let refused = ledger.allocate_pair(user("other"), vec![]).unwrap_err();
    assert!(matches!(refused, LedgerError::HasPair { .. }), "{refused}");
}

#[test]
fn a_pair_is_free_only_when_its_sandbox_is_gone() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    is_there(&node, "box");
    let mine = allocate(&ledger, "box");
    ledger.release_pair(holder("box")).unwrap();
    assert_eq!(told(&ledger), [("box".to_owned(), mine, true)]);
    assert!(matches!(ledger.reserve_pair(user("other"), mine), Err(LedgerError::PairTaken { .. })));
    let kept = ledger.settle_pairs().unwrap();
    assert_eq!((kept.len(), kept[0].freed), (1, false));
    is_gone(&node, "box");
    assert!(ledger.preview_pairs().unwrap()[0].freed);
    assert_eq!(told(&ledger).len(), 1, "a preview changes nothing");
    assert!(ledger.settle_pairs().unwrap()[0].freed);
    assert_eq!(told(&ledger), []);
    assert_eq!(ledger.release_pair(holder("box")).unwrap(), None);
}

#[test]
fn a_pair_of_this_boot_waits_for_its_runtime_and_one_of_an_earlier_boot_for_its_place() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    allocate(&ledger, "killed-before-its-record");
    is_there(&node, "stopped");
    allocate(&ledger, "stopped");
    assert_eq!(ledger.settle_pairs().unwrap(), []);
    let mut options = node.options(default_pool());
    options.boot = BootId("boot-2".to_owned());
    let after = Ledger::open(options).unwrap();
    let freed: Vec<_> =
        after.settle_pairs().unwrap().iter().map(|v| (v.held.holder.to_string(), v.freed)).collect();
    assert_eq!(freed, [("killed-before-its-record".to_owned(), true), ("stopped".to_owned(), false)]);
    assert!(after.pairs().unwrap()[0].earlier_boot);
    allocate(&after, "stopped");
    assert!(!after.pairs().unwrap()[0].earlier_boot, "confirmed");
}

#[test]
fn what_a_runtime_has_at_its_start_is_entered_and_what_it_has_not_is_freed() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let (kept, elsewhere) = (allocate(&ledger, "kept"), pair(5, 6));
    allocate(&ledger, "killed-before-its-record");
    is_there(&node, "half-removed");
    let half = allocate(&ledger, "half-removed");
    let other = PairUser { holder: holder("elsewhere"), place: "/other/elsewhere".into() };
    ledger.reserve_pair(other, elsewhere).unwrap();
    let leased = labelled(&ledger, "pod-uid");

    let known = vec![
        in_use("kept", kept, PairOrigin::Allocated),
        in_use("before-the-upgrade", pair(100, 200), PairOrigin::Allocated),
        in_use("of-a-lease", leased, PairOrigin::Named),
    ];
    assert_eq!(ledger.adopt_pairs(STATE.into(), known.clone()).unwrap(), []);
    let expected = [
        ("before-the-upgrade".to_owned(), pair(100, 200), false),
        ("elsewhere".to_owned(), elsewhere, false),
        ("half-removed".to_owned(), half, true),
        ("kept".to_owned(), kept, false),
        ("of-a-lease".to_owned(), leased, false),
    ];
    assert_eq!(told(&ledger), expected);
    assert_eq!(ledger.adopt_pairs(STATE.into(), known).unwrap(), []);
    assert_eq!(told(&node.open(default_pool())), expected);
}

#[test]
fn two_that_had_one_pair_before_they_had_one_allocator_are_told() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let leased = labelled(&ledger, "pod-uid");
    let known = vec![
        in_use("chosen-as-leased", leased, PairOrigin::Allocated),
        in_use("chosen-as-named", pair(8, 9), PairOrigin::Allocated),
        in_use("named", pair(8, 9), PairOrigin::Named),
    ];
    let conflicts = ledger.adopt_pairs(STATE.into(), known).unwrap();
    let said: Vec<_> =
        conflicts.iter().map(|c| (c.holder.to_string(), c.other.as_ref().unwrap().to_string())).collect();
    assert_eq!(
        said,
        [
            ("chosen-as-leased".to_owned(), "pod-uid".to_owned()),
            ("chosen-as-named".to_owned(), "named".to_owned())
        ]
    );
    assert_eq!(ledger.pair_conflicts().unwrap(), conflicts);
    ledger.release_pair(holder("named")).unwrap();
    ledger.release_pair(holder("chosen-as-leased")).unwrap();
    assert_eq!(ledger.pair_conflicts().unwrap(), []);
}

#[test]
fn a_pair_that_the_ledger_has_lost_is_entered_again_before_the_next_is_chosen() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let next = allocate(&ledger, "next");
    ledger.release_pair(holder("next")).unwrap();
    // What the runtime runs with, and the ledger knows nothing of: the pair that would be the next one's.
    is_there(&node, "lost");
    let lost = in_use("lost", next, PairOrigin::Allocated);
    let removed = in_use("removed-meanwhile", pair(7, 8), PairOrigin::Allocated);
    let given = ledger.allocate_pair(user("next"), vec![lost, removed]).unwrap();
    assert_ne!(given, next);
    assert_eq!(told(&ledger), [("lost".to_owned(), next, false), ("next".to_owned(), given, false)]);
}

#[test]
fn rows_of_free_pairs_do_not_pile_up_and_others_still_catch_up() {
    let node = in_memory();
    let (one, two) = (node.open(default_pool()), node.open(default_pool()));
    let kept = allocate(&two, "kept");
    for i in 0..700 {
        let name = format!("box-{i}");
        allocate(&one, &name);
        one.release_pair(holder(&name)).unwrap();
        if i % 300 == 0 {
            assert_eq!(told(&two), [("kept".to_owned(), kept, false)]);
        }
    }
    assert_eq!(told(&two), [("kept".to_owned(), kept, false)]);
    lease(&two, "pod");
    let db = rusqlite::Connection::open(node.state().join("ledger.db")).unwrap();
    let rows: u32 = db.query_row("SELECT count(*) FROM category_pair", [], |row| row.get(0)).unwrap();
    assert!(rows <= 257, "{rows} rows for one pair");
    for ledger in [one, two] {
        assert_eq!(ledger.take_notices(), Vec::<String>::new());
    }
}

#[test]
fn pairs_come_back_from_the_copy_alone() {
    let node = Node::new();
    let first = node.open(default_pool());
    let kept = allocate(&first, "kept");
    first.reserve_pair(user("named"), pair(1, 2)).unwrap();
    allocate(&first, "gone");
    first.release_pair(holder("gone")).unwrap();
    let before = told(&first);
    drop(first);
    std::fs::remove_file(node.state().join("ledger.db")).unwrap();
    let ledger = node.open(default_pool());
    assert_eq!(told(&ledger), before);
    assert_eq!(allocate(&ledger, "kept"), kept);
}

#[test]
fn of_a_copy_with_holes_every_pair_stays_in_use() {
    let node = Node::new();
    let first = node.open(default_pool());
    is_there(&node, "released");
    let (kept, released) = (allocate(&first, "kept"), allocate(&first, "released"));
    lease(&first, "lost");
    first.release_pair(holder("released")).unwrap();
    drop(first);
    std::fs::remove_file(node.state().join("ledger.db")).unwrap();
    let copies = node.state().join("copies");
    let text = std::fs::read_to_string(&copies).unwrap();
    let holed: String = text.lines().filter(|l| !l.contains("\"lost\"")).map(|l| format!("{l}\n")).collect();
    std::fs::write(&copies, holed).unwrap();
    let ledger = node.open(pool(1, 16));
    // What was given back may have been taken again in a line that is missing.
    assert_eq!(told(&ledger), [("kept".to_owned(), kept, false), ("released".to_owned(), released, false)]);
}

#[test]
fn a_place_that_cannot_be_written_down_is_refused() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let wrong = PairUser { holder: holder("box"), place: "relative".into() };
    let refused = ledger.allocate_pair(wrong, vec![]).unwrap_err();
    assert!(matches!(refused, LedgerError::Place { .. }), "{refused}");
    assert_eq!(told(&ledger), []);
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(usize),
    /// Names a pair: one of a few, or what this other sandbox has.
    Name(usize, Choice),
    Release(usize),
    /// The place comes into being, or goes.
    Place(usize, bool),
    Lease(usize),
    ReleaseLease(usize),
    Settle,
    /// The runtime starts again: sandboxes with a place are what it knows.
    Restart,
    Reopen,
    Reboot,
}

#[derive(Debug, Clone)]
enum Choice {
    Of(u32),
    Like(usize),
}

fn a_step() -> impl Strategy<Value = Step> {
    let name = || 0..6usize;
    let choice = prop_oneof![(0..3u32).prop_map(Choice::Of), name().prop_map(Choice::Like)];
    prop_oneof![
        6 => name().prop_map(Step::Allocate),
        4 => (name(), choice).prop_map(|(name, choice)| Step::Name(name, choice)),
        5 => name().prop_map(Step::Release),
        4 => (name(), any::<bool>()).prop_map(|(name, there)| Step::Place(name, there)),
        3 => (0..3usize).prop_map(Step::Lease),
        3 => (0..3usize).prop_map(Step::ReleaseLease),
        2 => Just(Step::Settle),
        1 => Just(Step::Restart),
        2 => Just(Step::Reopen),
        1 => Just(Step::Reboot),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Has {
    pair: CategoryPair,
    origin: PairOrigin,
    released: bool,
    boot: u32,
}

/// What every sandbox and every lease has: no files, no rows, no search.
#[derive(Default)]
struct Model {
    boxes: BTreeMap<usize, Has>,
    leases: BTreeMap<usize, CategoryPair>,
    places: BTreeSet<usize>,
    boot: u32,
}

impl Model {
    fn taken(&self) -> HashSet<CategoryPair> {
        self.boxes.values().map(|has| has.pair).chain(self.leases.values().copied()).collect()
    }

    fn confirm(&mut self, name: usize) {
        let boot = self.boot;
        if let Some(has) = self.boxes.get_mut(&name) {
            (has.released, has.boot) = (false, boot);
        }
    }

    fn release(&mut self, name: usize) {
        if self.places.contains(&name) {
            if let Some(has) = self.boxes.get_mut(&name) {
                has.released = true;
            }
        } else {
            self.boxes.remove(&name);
        }
    }

    fn settle(&mut self) {
        let (boot, places) = (self.boot, &self.places);
        self.boxes.retain(|name, has| places.contains(name) || (!has.released && has.boot == boot));
    }
}

/// One node with two processes that have its ledger open and take turns.
struct Both {
    node: Node,
    ledgers: Vec<Ledger>,
    turn: usize,
    model: Model,
}

fn name(i: usize) -> String {
    format!("box-{i}")
}

impl Both {
    fn new() -> Self {
        let node = in_memory();
        let mut both = Self { node, ledgers: vec![], turn: 0, model: Model::default() };
        both.open();
        both
    }

    fn open(&mut self) {
        self.ledgers.clear();
        for _ in 0..2 {
            let mut options = self.node.options(pool(1, 64));
            options.boot = BootId(format!("boot-{}", self.model.boot));
            self.ledgers.push(Ledger::open(options).unwrap());
        }
    }

    fn ledger(&self) -> &Ledger {
        &self.ledgers[self.turn % 2]
    }

    fn step(&mut self, step: &Step) {
        self.turn += 1;
        match *step {
            Step::Allocate(box_) => self.allocate(box_),
            Step::Name(box_, ref choice) => self.name(box_, choice),
            Step::Release(box_) => {
                let had = self.ledger().release_pair(holder(&name(box_))).unwrap();
                assert_eq!(had.map(|h| h.pair), self.model.boxes.get(&box_).map(|has| has.pair));
                self.model.release(box_);
            }
            Step::Place(box_, true) => {
                if self.model.places.insert(box_) {
                    is_there(&self.node, &name(box_));
                }
            }
            Step::Place(box_, false) => {
                self.model.places.remove(&box_);
                is_gone(&self.node, &name(box_));
            }
            Step::Lease(pod) => {
                let pair = labelled(self.ledger(), &format!("pod-{pod}"));
                match self.model.leases.get(&pod) {
                    Some(known) => assert_eq!(pair, *known),
                    None => assert!(!self.model.taken().contains(&pair), "{pair} is in use"),
                }
                self.model.leases.insert(pod, pair);
            }
            Step::ReleaseLease(pod) => {
                self.ledger().release(holder(&format!("pod-{pod}"))).unwrap();
                for _ in 0..2 {
                    self.ledger().settle().unwrap();
                    self.node.pass(60);
                }
                self.model.leases.remove(&pod);
            }
            Step::Settle => {
                self.ledger().settle_pairs().unwrap();
                self.model.settle();
            }
            Step::Restart => self.restart(),
            Step::Reopen => self.open(),
            Step::Reboot => {
                self.model.boot += 1;
                self.open();
            }
        }
    }

    fn allocate(&mut self, box_: usize) {
        let given = self.ledger().allocate_pair(user(&name(box_)), vec![]);
        match self.model.boxes.get(&box_).cloned() {
            Some(has) if has.origin == PairOrigin::Named => {
                assert!(matches!(given, Err(LedgerError::HasPair { .. })), "{given:?}");
            }
            Some(has) => {
                assert_eq!(given.unwrap(), has.pair);
                self.model.confirm(box_);
            }
            None => {
                let pair = given.unwrap();
                assert!(!self.model.taken().contains(&pair), "{pair} is in use");
                let has = Has { pair, origin: PairOrigin::Allocated, released: false, boot: self.model.boot };
                self.model.boxes.insert(box_, has);
            }
        }
    }

    fn name(&mut self, box_: usize, choice: &Choice) {
        let wanted = match choice {
            Choice::Of(n) => CategoryPair::nth(*n).unwrap(),
            Choice::Like(other) => match self.model.boxes.get(other) {
                Some(has) => has.pair,
                None => return,
            },
        };
        let done = self.ledger().reserve_pair(user(&name(box_)), wanted);
        let is_allocated = |has: &Has| has.pair == wanted && has.origin == PairOrigin::Allocated;
        match self.model.boxes.get(&box_).cloned() {
            Some(has) if has.origin == PairOrigin::Named && has.pair == wanted => {
                done.unwrap();
                self.model.confirm(box_);
            }
            Some(_) => assert!(matches!(done, Err(LedgerError::HasPair { .. })), "{done:?}"),
            None if self.model.boxes.values().any(is_allocated) => {
                assert!(matches!(done, Err(LedgerError::PairTaken { .. })), "{done:?}");
            }
            None => {
                done.unwrap();
                let has =
                    Has { pair: wanted, origin: PairOrigin::Named, released: false, boot: self.model.boot };
                self.model.boxes.insert(box_, has);
            }
        }
    }

    fn restart(&mut self) {
        let (known, gone): (Vec<usize>, Vec<usize>) =
            self.model.boxes.keys().partition(|box_| self.model.places.contains(box_));
        let entry = |box_: &usize| {
            let has = &self.model.boxes[box_];
            in_use(&name(*box_), has.pair, has.origin)
        };
        let conflicts = self.ledger().adopt_pairs(STATE.into(), known.iter().map(entry).collect()).unwrap();
        assert_eq!(conflicts, []);
        known.into_iter().for_each(|box_| self.model.confirm(box_));
        gone.into_iter().for_each(|box_| self.model.release(box_));
    }

    fn agree(&self) {
        let wanted: Vec<_> =
            self.model.boxes.iter().map(|(i, has)| (name(*i), has.pair, has.released)).collect();
        for ledger in &self.ledgers {
            assert_eq!(told(ledger), wanted);
            assert_eq!(ledger.pair_conflicts().unwrap(), []);
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|s| s.parse::<u32>().ok()).map_or(200, |n| n.min(20_000))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_history_of_category_pairs_is_that_of_its_model(steps in prop::collection::vec(a_step(), 1..60)) {
        let mut both = Both::new();
        for step in &steps {
            both.step(step);
            both.agree();
        }
        both.open();
        both.agree();
        for ledger in &both.ledgers {
            assert_eq!(ledger.take_notices(), Vec::<String>::new());
        }
    }
}
