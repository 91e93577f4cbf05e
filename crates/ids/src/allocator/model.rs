//! The allocator against a model that is too simple to be wrong: a list of units, searched whole.

use proptest::prelude::*;

use super::*;
use crate::pool::{NamedSpan, PoolOrigin, PoolRequest};

const UNIT: u64 = 65_536;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Cell {
    Outside,
    Free(u64),
    Held,
}

/// One lane, one cell per unit.
struct Model {
    cells: Vec<Cell>,
}

impl Model {
    fn new(runs: &[(u64, u64)]) -> Self {
        let mut cells = vec![Cell::Outside; 64];
        for &(first, n) in runs {
            for cell in &mut cells[usize::try_from(first).unwrap()..usize::try_from(first + n).unwrap()] {
                *cell = Cell::Free(0);
            }
        }
        Self { cells }
    }

    fn pick(&self, order: u32, avoid: &[usize]) -> Option<usize> {
        let n = 1usize << order;
        let groups = (0..self.cells.len() / n).filter_map(|g| {
            let range = g * n..(g + 1) * n;
            if range.clone().any(|u| avoid.contains(&u)) {
                return None;
            }
            let ages: Option<Vec<u64>> = self.cells[range]
                .iter()
                .map(|c| if let Cell::Free(age) = c { Some(*age) } else { None })
                .collect();
            ages.map(|a| (a.into_iter().max().unwrap(), g))
        });
        groups.min().map(|(_, g)| g * n)
    }

    fn set(&mut self, first: usize, order: u32, cell: Cell) {
        self.cells[first..first + (1 << order)].fill(cell);
    }
}

#[derive(Debug, Clone)]
enum Op {
    Lease { order: u32, avoid: Vec<usize> },
    Drain(usize),
    Revive(usize),
    Quarantine { which: usize, rest: u64 },
    Free(usize),
    Tick,
    Reload,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (prop_oneof![3 => Just(0u32), 1 => Just(1), 1 => Just(2), 1 => Just(3), 1 => Just(5)], prop::collection::vec(0usize..64, 0..4))
            .prop_map(|(order, avoid)| Op::Lease { order, avoid }),
        2 => any::<prop::sample::Index>().prop_map(|i| Op::Drain(i.index(64))),
        1 => any::<prop::sample::Index>().prop_map(|i| Op::Revive(i.index(64))),
        2 => (any::<prop::sample::Index>(), 0u64..4).prop_map(|(i, rest)| Op::Quarantine { which: i.index(64), rest }),
        3 => any::<prop::sample::Index>().prop_map(|i| Op::Free(i.index(64))),
        2 => Just(Op::Tick),
        1 => Just(Op::Reload),
    ]
}

fn pool(runs: &[(u64, u64)]) -> IdPool {
    let spans: Vec<NamedSpan> = runs
        .iter()
        .map(|&(first, n)| NamedSpan {
            ids: HostSpan::new(first * UNIT, n * UNIT).unwrap(),
            origin: "test".into(),
        })
        .collect();
    IdPool::new(PoolRequest {
        block: BlockLength::DEFAULT,
        uids: spans.clone(),
        gids: spans,
        excluded: vec![],
        origin: PoolOrigin::Default,
    })
    .unwrap()
}

/// Everything a ledger would keep, so that an allocator can be made anew from it.
#[derive(Clone, Copy)]
struct Row {
    id: LeaseId,
    blocks: Blocks,
    order: u32,
    state: State,
}

struct World {
    runs: Vec<(u64, u64)>,
    allocator: Allocator,
    model: Model,
    rows: Vec<Row>,
    freed: Vec<(Blocks, u64)>,
    next: u64,
    now: u64,
    sequence: u64,
}

impl World {
    fn new(runs: Vec<(u64, u64)>) -> Self {
        Self {
            allocator: Allocator::new(pool(&runs), None),
            model: Model::new(&runs),
            runs,
            rows: vec![],
            freed: vec![],
            next: 0,
            now: 100,
            sequence: 0,
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Lease { order, avoid } => self.lease(order, &avoid),
            Op::Drain(i) => self.advance(i, State::Draining, |from| {
                from == State::Leased || matches!(from, State::Quarantined { .. })
            }),
            Op::Revive(i) => self.advance(i, State::Leased, |from| {
                matches!(from, State::Draining | State::Quarantined { .. })
            }),
            Op::Quarantine { which, rest } => {
                self.advance(which, State::Quarantined { until: self.now + rest }, |from| {
                    from == State::Draining
                });
            }
            Op::Free(i) => self.free(i),
            Op::Tick => self.now += 1,
            Op::Reload => self.reload(),
        }
        self.check();
    }

    fn lease(&mut self, order: u32, avoid: &[usize]) {
        let id = LeaseId(self.next);
        self.next += 1;
        let spans: Vec<HostSpan> =
            avoid.iter().map(|&u| HostSpan::new(u as u64 * UNIT + 7, 1).unwrap()).collect();
        let object = |_: IdKind, b: IdBlock| spans.iter().copied().find(|s| s.overlaps(b.span()));
        let length = BlockLength::try_from(UNIT << order).unwrap();
        let got = self.allocator.lease(id, length, &object);
        match (got, self.model.pick(order, avoid)) {
            (Ok(blocks), Some(first)) => {
                assert_eq!(blocks.uids.base().get(), u32::try_from(first as u64 * UNIT).unwrap());
                assert_eq!(blocks.uids, blocks.gids);
                self.model.set(first, order, Cell::Held);
                self.rows.push(Row { id, blocks, order, state: State::Leased });
            }
            (Err(LeaseError::Exhausted(_) | LeaseError::TooLarge { .. }), None) => {}
            (got, expected) => panic!("allocator {got:?}, model {expected:?}"),
        }
    }

    fn advance(&mut self, i: usize, to: State, allowed: impl Fn(State) -> bool) {
        if self.rows.is_empty() {
            return;
        }
        let i = i % self.rows.len();
        let row = &mut self.rows[i];
        let done = self.allocator.advance(row.id, to);
        assert_eq!(done.is_ok(), allowed(row.state), "{:?} -> {to:?}", row.state);
        if done.is_ok() {
            row.state = to;
        }
    }

    fn free(&mut self, i: usize) {
        if self.rows.is_empty() {
            return;
        }
        let i = i % self.rows.len();
        let row = self.rows[i];
        let rested = matches!(row.state, State::Quarantined { until } if until <= self.now);
        let done = self.allocator.free(row.id, self.now, self.sequence + 1);
        assert_eq!(done.is_ok(), rested, "{:?} at {}", row.state, self.now);
        if done.is_ok() {
            self.sequence += 1;
            let first = usize::try_from(u64::from(row.blocks.uids.base()) / UNIT).unwrap();
            self.model.set(first, row.order, Cell::Free(self.sequence));
            self.freed.push((row.blocks, self.sequence));
            self.rows.swap_remove(i);
        }
    }

    /// A restart: what was recorded must lead to the same decisions.
    fn reload(&mut self) {
        let mut anew = Allocator::new(pool(&self.runs), None);
        for &(blocks, sequence) in &self.freed {
            anew.remember_freed(blocks, sequence);
        }
        let rows = self.rows.iter().map(|r| (r.id, r.blocks, r.state)).collect();
        assert_eq!(anew.adopt_all(rows), []);
        self.allocator = anew;
    }

    fn check(&self) {
        for (i, a) in self.rows.iter().enumerate() {
            assert!(u64::from(a.blocks.uids.base()) >= UNIT && a.blocks.uids.last().get() < u32::MAX);
            for b in &self.rows[i + 1..] {
                assert!(!a.blocks.uids.overlaps(b.blocks.uids) && !a.blocks.gids.overlaps(b.blocks.gids));
            }
        }
        let free = self.model.cells.iter().filter(|c| matches!(c, Cell::Free(_))).count();
        assert_eq!(self.allocator.counts().free as usize, free);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases()))]
    #[test]
    fn the_allocator_decides_as_the_model(
        runs in prop_oneof![
            Just(vec![(1u64, 12u64)]),
            Just(vec![(1, 40)]),
            Just(vec![(3, 5), (16, 16)]),
            Just(vec![(1, 1), (3, 1), (8, 9), (20, 4)]),
        ],
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut world = World::new(runs);
        for op in ops {
            world.step(op);
        }
    }
}

/// Every sequence of leases and returns on a pool of three blocks, to depth 9: nothing overlaps,
/// nothing is lost, and the last to be freed is the last to be given.
#[test]
fn every_history_of_a_tiny_pool_keeps_the_rules() {
    fn walk(world: &World, depth: u32, seen: &mut u64) {
        *seen += 1;
        if depth == 0 {
            return;
        }
        for choice in 0..4 {
            let mut next = World {
                runs: world.runs.clone(),
                allocator: world.allocator.clone(),
                model: Model { cells: world.model.cells.clone() },
                rows: world.rows.clone(),
                freed: world.freed.clone(),
                ..*world
            };
            match choice {
                0 => next.step(Op::Lease { order: 0, avoid: vec![] }),
                1 => next.step(Op::Lease { order: 1, avoid: vec![] }),
                i => {
                    let Some(row) = next.rows.get(i - 2).copied() else { continue };
                    let i = i - 2;
                    match row.state {
                        State::Leased => next.step(Op::Drain(i)),
                        State::Draining => next.step(Op::Quarantine { which: i, rest: 0 }),
                        _ => next.step(Op::Free(i)),
                    }
                }
            }
            walk(&next, depth - 1, seen);
        }
    }
    let mut seen = 0;
    walk(&World::new(vec![(1, 3)]), 9, &mut seen);
    assert!(seen > 10_000, "{seen}");
}

#[test]
fn the_whole_default_pool_can_be_leased_and_nothing_of_it_touches_the_host() {
    let mut a = Allocator::new(IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap(), None);
    let mut seen = std::collections::HashSet::new();
    for i in 0..65_534 {
        let b = a.lease(LeaseId(i), BlockLength::DEFAULT, &|_, _| None).unwrap();
        assert!(b.uids.base().get() >= 65_536 && b.uids.last().get() < u32::MAX - 65_535);
        assert!(seen.insert(b.uids.base()));
    }
    let e = a.lease(LeaseId(65_534), BlockLength::DEFAULT, &|_, _| None).unwrap_err();
    assert_eq!(
        e.to_string(),
        "no block of 65536 IDs is free: of 65534 blocks 65534 are leased, 0 draining, 0 quarantined, 0 pinned"
    );
}

#[test]
fn wrong_sizes_too_large_ones_and_the_cap_each_have_their_own_error() {
    let mut a = Allocator::new(pool(&[(1, 12)]), Some(1));
    let length = |n: u64| BlockLength::try_from(n).unwrap();
    assert_eq!(
        a.lease(LeaseId(1), length(3 * UNIT), &|_, _| None),
        Err(LeaseError::Size { asked: 3 * UNIT, below: 2 * UNIT, above: 4 * UNIT })
    );
    assert_eq!(
        a.lease(LeaseId(1), length(8 * UNIT), &|_, _| None),
        Err(LeaseError::TooLarge { asked: length(8 * UNIT), largest: length(4 * UNIT) })
    );
    a.lease(LeaseId(1), length(UNIT), &|_, _| None).unwrap();
    let e = a.lease(LeaseId(2), length(UNIT), &|_, _| None).unwrap_err();
    assert_eq!(e, LeaseError::OverCap { cap: 1, leased: 1 });
    assert_eq!(
        size_error(BlockLength::DEFAULT, 100_000).to_string(),
        "a lease cannot have 100000 IDs; the nearest valid sizes are 65536 and 131072"
    );
}

#[test]
fn a_lease_of_an_earlier_pool_or_block_length_stays_out_of_everybodys_way() {
    let mut a =
        Allocator::new(IdPool::default_for(BlockLength::try_from(2 * UNIT).unwrap(), vec![]).unwrap(), None);
    let old = Blocks::same(IdBlock::new(3 * UNIT, UNIT).unwrap());
    a.adopt(LeaseId(0), old, State::Leased).unwrap();
    let first = a.lease(LeaseId(1), BlockLength::try_from(2 * UNIT).unwrap(), &|_, _| None).unwrap();
    assert_eq!(u64::from(first.uids.base()), 4 * UNIT, "units 2-3 are partly held");
    let e = a
        .adopt(LeaseId(2), Blocks::same(IdBlock::new(2 * UNIT, 2 * UNIT).unwrap()), State::Leased)
        .unwrap_err();
    assert!(matches!(e, Adoption::Overlapping { with: LeaseId(0), .. }));
}

#[test]
fn of_many_entered_at_once_those_that_contradict_an_earlier_one_are_refused() {
    let at = |unit: u64, n: u64| Blocks::same(IdBlock::new(unit * UNIT, n * UNIT).unwrap());
    let mut a = Allocator::new(pool(&[(1, 40)]), None);
    let leases = [(0, at(8, 1)), (1, at(2, 2)), (2, at(3, 1)), (1, at(20, 1)), (3, at(8, 4))];
    let leases = leases.map(|(id, blocks)| (LeaseId(id), blocks, State::Leased)).to_vec();
    assert_eq!(a.adopt_all(leases), [LeaseId(2), LeaseId(1), LeaseId(3)]);
    assert_eq!((a.counts().leased, a.counts().free), (2, 37));
}

#[test]
fn user_and_group_pools_of_their_own_give_blocks_of_their_own() {
    let span = |first: u64, n| {
        vec![NamedSpan { ids: HostSpan::new(first * UNIT, n * UNIT).unwrap(), origin: "test".into() }]
    };
    let pool = IdPool::new(PoolRequest {
        block: BlockLength::DEFAULT,
        uids: span(1, 3),
        gids: span(8, 2),
        excluded: vec![],
        origin: PoolOrigin::Default,
    })
    .unwrap();
    let mut a = Allocator::new(pool, None);
    let b = a.lease(LeaseId(0), BlockLength::DEFAULT, &|_, _| None).unwrap();
    assert_eq!((u64::from(b.uids.base()), u64::from(b.gids.base())), (UNIT, 8 * UNIT));
    a.lease(LeaseId(1), BlockLength::DEFAULT, &|_, _| None).unwrap();
    assert!(matches!(a.lease(LeaseId(2), BlockLength::DEFAULT, &|_, _| None), Err(LeaseError::Exhausted(_))));
    assert_eq!(a.counts().free, 0, "one user block is left, but no group block");
}
