//! Random histories of a ledger on disk, against a model too simple to be wrong.
//!
//! The model knows which block everybody has and when each block was last freed; it has no files, no
//! transactions and no indexes. After every step both must agree on every holder, every state and
//! every error.

use crate::common;

use std::collections::BTreeMap;

use common::{Node, holder, pool, unit};
use ids::allocator::State;
use ledger::{BootId, LeaseRequest, Ledger, Tenure};
use proptest::prelude::*;

const BLOCKS: u64 = 5;
const REST: u64 = 60;

#[derive(Debug, Clone)]
enum Step {
    Lease(usize, Tenure),
    Release(usize),
    Join(usize, usize, Tenure),
    Settle,
    Pass(u64),
    Reopen,
    Reboot,
}

fn a_step() -> impl Strategy<Value = Step> {
    let tenure = || prop_oneof![2 => Just(Tenure::Durable), 1 => Just(Tenure::UntilReboot)];
    prop_oneof![
        6 => (0..7usize, tenure()).prop_map(|(name, tenure)| Step::Lease(name, tenure)),
        6 => (0..9usize).prop_map(Step::Release),
        4 => (0..2usize, 0..7usize, tenure()).prop_map(|(shared, name, tenure)| Step::Join(shared, name, tenure)),
        4 => Just(Step::Settle),
        4 => (1..80u64).prop_map(Step::Pass),
        2 => Just(Step::Reopen),
        1 => Just(Step::Reboot),
    ]
}

/// 0 to 6 are pods, 7 and 8 the names of shared leases.
fn name(i: usize) -> String {
    if i < 7 { format!("pod-{i}") } else { format!("shared-{}", i - 7) }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    number: u64,
    block: u64,
    state: State,
    /// Of a shared lease: who has joined, for how long, in which boot.
    members: Option<BTreeMap<usize, (Tenure, u32)>>,
    tenure: Tenure,
    boot: u32,
}

#[derive(Default)]
struct Model {
    held: BTreeMap<usize, Held>,
    /// When each block was last freed, in the order of freeing.
    freed: BTreeMap<u64, u64>,
    frees: u64,
    given: u64,
    now: u64,
    boot: u32,
}

impl Model {
    fn shared_of(&self, pod: usize) -> Option<usize> {
        let is_in = |h: &Held| h.members.as_ref().is_some_and(|m| m.contains_key(&pod));
        self.held.iter().find(|(_, h)| is_in(h)).map(|(name, _)| *name)
    }

    fn free_block(&self) -> Option<u64> {
        let taken = |b: &u64| self.held.values().any(|h| h.block == *b);
        (1..=BLOCKS).filter(|b| !taken(b)).min_by_key(|b| (self.freed.get(b).copied().unwrap_or(0), *b))
    }

    /// The oldest-freed block, after a look around if there is none.
    fn take(&mut self) -> Option<u64> {
        if self.free_block().is_none() {
            self.settle();
        }
        self.free_block()
    }

    fn give(
        &mut self,
        to: usize,
        members: Option<BTreeMap<usize, (Tenure, u32)>>,
        tenure: Tenure,
    ) -> Option<u64> {
        let block = self.take()?;
        self.given += 1;
        let held = Held { number: self.given, block, state: State::Leased, members, tenure, boot: self.boot };
        self.held.insert(to, held);
        Some(block)
    }

    fn lease(&mut self, pod: usize, tenure: Tenure) -> Option<u64> {
        if self.shared_of(pod).is_some() {
            return None;
        }
        let boot = self.boot;
        if let Some(held) = self.held.get_mut(&pod) {
            held.state = State::Leased;
            held.boot = boot;
            return Some(held.block);
        }
        self.give(pod, None, tenure)
    }

    fn join(&mut self, shared: usize, pod: usize, tenure: Tenure) -> Option<u64> {
        let elsewhere = self.shared_of(pod).is_some_and(|s| s != shared);
        if elsewhere || self.held.contains_key(&pod) {
            return None;
        }
        if !self.held.contains_key(&shared) {
            self.give(shared, Some(BTreeMap::new()), tenure)?;
        }
        let boot = self.boot;
        let held = self.held.get_mut(&shared).unwrap();
        held.state = State::Leased;
        let members = held.members.as_mut().unwrap();
        // Who asks again in the same boot changes nothing.
        if members.get(&pod).is_none_or(|(_, joined_in)| *joined_in != boot) {
            members.insert(pod, (tenure, boot));
        }
        Some(held.block)
    }

    fn release(&mut self, name: usize) -> bool {
        if let Some(shared) = self.shared_of(name) {
            let held = self.held.get_mut(&shared).unwrap();
            let members = held.members.as_mut().unwrap();
            members.remove(&name);
            if members.is_empty() {
                held.state = State::Draining;
            }
            return true;
        }
        match self.held.get_mut(&name) {
            Some(held) if held.members.as_ref().is_some_and(|m| !m.is_empty()) => false,
            Some(held) if held.state == State::Leased => {
                held.state = State::Draining;
                true
            }
            _ => true,
        }
    }

    fn settle(&mut self) {
        let now = self.now;
        let rested = |h: &Held| matches!(h.state, State::Quarantined { until } if until <= now);
        // In the order in which they were given.
        let mut done: Vec<usize> =
            self.held.iter().filter(|(_, h)| rested(h)).map(|(name, _)| *name).collect();
        for held in self.held.values_mut().filter(|h| h.state == State::Draining) {
            held.state = State::Quarantined { until: now + REST };
        }
        done.sort_by_key(|name| self.held[name].number);
        for name in done {
            let held = self.held.remove(&name).unwrap();
            self.frees += 1;
            self.freed.insert(held.block, self.frees);
        }
    }

    fn reboot(&mut self) {
        self.boot += 1;
        let boot = self.boot;
        let leaving = |(pod, (tenure, joined_in)): (&usize, &(Tenure, u32))| {
            (*tenure == Tenure::UntilReboot && *joined_in != boot).then_some(*pod)
        };
        let members = self.held.values().flat_map(|h| h.members.iter().flatten());
        for pod in members.filter_map(leaving).collect::<Vec<_>>() {
            self.release(pod);
        }
        let brief = |h: &&mut Held| h.tenure == Tenure::UntilReboot && h.boot != boot && h.members.is_none();
        for held in self.held.values_mut().filter(brief).filter(|h| h.state == State::Leased) {
            held.state = State::Draining;
        }
    }
}

struct Both {
    node: Node,
    ledger: Option<Ledger>,
    model: Model,
}

impl Both {
    fn new() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let mut node = Node::new();
        if memory.is_dir() {
            node.dir = tempfile::tempdir_in(memory).unwrap();
        }
        let now = node.clock.0.load(std::sync::atomic::Ordering::SeqCst);
        let mut both = Self { node, ledger: None, model: Model { now, ..Model::default() } };
        both.open();
        both
    }

    fn open(&mut self) {
        self.ledger = None;
        let mut options = self.node.options(pool(1, BLOCKS));
        options.boot = BootId(format!("boot-{}", self.model.boot));
        self.ledger = Some(Ledger::open(options).unwrap());
    }

    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Lease(pod, tenure) => {
                let request = LeaseRequest { tenure, ..LeaseRequest::new(holder(&name(pod))) };
                let given = self.ledger().lease(request).ok().map(|l| unit(&l));
                assert_eq!(given, self.model.lease(pod, tenure));
            }
            Step::Join(shared, pod, tenure) => {
                let request = LeaseRequest { tenure, ..LeaseRequest::new(holder(&name(pod))) };
                let given = self.ledger().join(holder(&name(7 + shared)), request).ok().map(|l| unit(&l));
                assert_eq!(given, self.model.join(7 + shared, pod, tenure));
            }
            Step::Release(who) => {
                assert_eq!(self.ledger().release(holder(&name(who))).is_ok(), self.model.release(who));
            }
            Step::Settle => {
                self.ledger().settle().unwrap();
                self.model.settle();
            }
            Step::Pass(seconds) => {
                self.node.pass(seconds);
                self.model.now += seconds;
            }
            Step::Reopen => self.open(),
            Step::Reboot => {
                self.model.reboot();
                self.open();
            }
        }
    }

    fn agree(&self) {
        let listed = self.ledger().list().unwrap();
        let seen: BTreeMap<String, (u64, State, Option<Vec<String>>)> = listed
            .iter()
            .map(|l| {
                let members = l.members.as_ref().map(|m| m.iter().map(ToString::to_string).collect());
                (l.holder.as_ref().unwrap().to_string(), (unit(l), l.state, members))
            })
            .collect();
        assert_eq!(seen.len(), listed.len(), "two leases of one name");
        let wanted = self.model.held.iter().map(|(i, h)| {
            let members = h.members.as_ref().map(|m| m.keys().map(|i| name(*i)).collect());
            (name(*i), (h.block, h.state, members))
        });
        assert_eq!(seen, wanted.collect());
        let mut blocks: Vec<u64> = seen.values().map(|(block, ..)| *block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), seen.len(), "two leases of one block");
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|s| s.parse::<u32>().ok()).map_or(300, |n| n.min(20_000))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_history_of_a_ledger_is_that_of_its_model(steps in prop::collection::vec(a_step(), 1..60)) {
        let mut both = Both::new();
        for step in &steps {
            both.step(step);
            both.agree();
        }
        both.open();
        both.agree();
        assert_eq!(both.ledger().take_notices(), Vec::<String>::new());
    }
}
