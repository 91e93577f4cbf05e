//! The free blocks of one kind of ID, oldest-freed first, in logarithmic time.
//!
//! A *unit* is one block of the node's length; a *group* of order k is 2^k units, aligned. For every
//! order, the wholly free groups are kept sorted by when they were last used: the age of a group is
//! that of its most recently freed unit, and a unit never used has age 0. Units are entered only up
//! to a cursor; behind it all is fresh, so that an empty pool of 65 534 blocks costs nothing.

use std::collections::{BTreeSet, HashMap};

use crate::block::{BlockLength, IdBlock};
use crate::pool::{Run, block_at};
use crate::span::HostSpan;

#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    /// Leases that cover part of it; more than one only for leases of an earlier, smaller block
    /// length.
    takers: u32,
    /// When it was last freed; 0 is never.
    freed: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Lane {
    unit: BlockLength,
    runs: Vec<Run>,
    /// Every unit of the pool below this one is in `units`, none from here on.
    cursor: u32,
    units: HashMap<u32, Unit>,
    /// Per order: the age of each wholly free group...
    ages: Vec<HashMap<u32, u64>>,
    /// ...and the same sorted by (age, group).
    ready: Vec<BTreeSet<(u64, u32)>>,
    free: u32,
}

/// Called for a block before it is given out: returns a used or claimed span that the block touches.
pub(super) type Avoid<'a> = &'a dyn Fn(IdBlock) -> Option<HostSpan>;

impl Lane {
    pub(super) fn new(unit: BlockLength, runs: Vec<Run>) -> Self {
        let orders = (0..32).take_while(|&k| unit.doubled(k).is_some()).count();
        let free = runs.iter().map(|r| r.last - r.first + 1).sum();
        Self {
            unit,
            cursor: runs.first().map_or(u32::MAX, |r| r.first),
            runs,
            units: HashMap::new(),
            ages: vec![HashMap::new(); orders],
            ready: vec![BTreeSet::new(); orders],
            free,
        }
    }

    /// Units of the pool that no lease holds.
    pub(super) fn free_units(&self) -> u32 {
        self.free
    }

    /// The order of the longest block that an empty pool could give.
    pub(super) fn largest_order(&self) -> Option<u32> {
        (0..32u32).take_while(|&k| self.runs.iter().any(|r| fits(*r, k))).last()
    }

    /// The free block of this order that was used longest ago, lowest first among equals, for which
    /// `avoid` has no objection.
    pub(super) fn pick(&mut self, order: u32, avoid: Avoid<'_>) -> Option<IdBlock> {
        self.enter_up_to_boundary(order);
        self.pick_never_used(order, avoid)
            .or_else(|| self.pick_fresh(order, avoid))
            .or_else(|| self.pick_freed(order, avoid))
    }

    fn pick_never_used(&self, order: u32, avoid: Avoid<'_>) -> Option<IdBlock> {
        let ready = self.ready.get(usize::try_from(order).ok()?)?;
        let mut from = 0;
        while let Some(&(0, group)) = ready.range((0, from)..).next() {
            let block = block_at(self.unit, order, group)?;
            match avoid(block) {
                None => return Some(block),
                // A span in the way may be long: continue behind it.
                Some(span) => from = (group + 1).max(self.group_behind(order, span)),
            }
        }
        None
    }

    fn pick_fresh(&self, order: u32, avoid: Avoid<'_>) -> Option<IdBlock> {
        let mut group = self.cursor.checked_next_multiple_of(1 << order)? >> order;
        loop {
            let first = group.checked_shl(order).filter(|f| f >> order == group)?;
            let run = self.runs.iter().find(|r| first <= r.last)?;
            if first < run.first {
                group = run.first.checked_next_multiple_of(1 << order)? >> order;
                continue;
            }
            if run.last - first < (1 << order) - 1 {
                group += 1;
                continue;
            }
            let block = block_at(self.unit, order, group)?;
            match avoid(block) {
                None => return Some(block),
                Some(span) => group = (group + 1).max(self.group_behind(order, span)),
            }
        }
    }

    fn pick_freed(&self, order: u32, avoid: Avoid<'_>) -> Option<IdBlock> {
        let ready = self.ready.get(usize::try_from(order).ok()?)?;
        ready
            .range((1, 0)..)
            .filter_map(|&(_, group)| block_at(self.unit, order, group))
            .find(|&block| avoid(block).is_none())
    }

    /// The first group that starts behind `span`.
    fn group_behind(&self, order: u32, span: HostSpan) -> u32 {
        let length = u64::from(self.unit) << order;
        u32::try_from(span.end().div_ceil(length)).unwrap_or(u32::MAX)
    }

    /// Counts a lease in: its units are free no more.
    pub(super) fn take(&mut self, block: IdBlock) {
        for unit in self.units_of(block) {
            while self.cursor < unit {
                self.enter_next();
            }
            if self.cursor == unit {
                // Never free in any index, so there is none to take it out of.
                self.cursor = unit.saturating_add(1);
                self.units.insert(unit, Unit { takers: 1, freed: 0 });
                self.free -= 1;
            } else if let Some(state) = self.units.get_mut(&unit) {
                state.takers += 1;
                if state.takers == 1 {
                    self.free -= 1;
                    self.refresh(unit);
                }
            }
        }
    }

    /// Counts a lease out; `freed` is its place in the order of all that were freed.
    pub(super) fn give_back(&mut self, block: IdBlock, freed: u64) {
        for unit in self.units_of(block) {
            if let Some(state) = self.units.get_mut(&unit).filter(|s| s.takers > 0) {
                state.takers -= 1;
                state.freed = state.freed.max(freed);
                if state.takers == 0 {
                    self.free += 1;
                }
                self.refresh(unit);
            }
        }
    }

    /// Remembers that `block` was freed at `freed`, in an earlier life of this lane.
    pub(super) fn remember(&mut self, block: IdBlock, freed: u64) {
        for unit in self.units_of(block) {
            self.enter_through(unit);
            if let Some(state) = self.units.get_mut(&unit) {
                state.freed = state.freed.max(freed);
                self.refresh(unit);
            }
        }
    }

    fn in_pool(&self, unit: u32) -> bool {
        self.runs.iter().any(|r| (r.first..=r.last).contains(&unit))
    }

    /// The units of the pool that `block` covers, wholly or in part.
    fn units_of(&self, block: IdBlock) -> impl Iterator<Item = u32> + use<> {
        let n = self.unit.get();
        let (first, last) = (block.base().get() / n, block.last().get() / n);
        let runs: Vec<Run> =
            self.runs.iter().filter(|r| first <= r.last && r.first <= last).copied().collect();
        runs.into_iter().flat_map(move |r| r.first.max(first)..=r.last.min(last))
    }

    fn enter_through(&mut self, unit: u32) {
        while self.cursor <= unit {
            self.enter_next();
        }
    }

    /// Enters what is missing of the group of this order that the cursor stands in, so that no group
    /// of this order lies on both sides of it.
    fn enter_up_to_boundary(&mut self, order: u32) {
        let boundary = self.cursor.checked_next_multiple_of(1 << order).unwrap_or(self.cursor);
        while self.cursor < boundary {
            self.enter_next();
        }
    }

    fn enter_next(&mut self) {
        let unit = self.cursor;
        self.cursor = unit.saturating_add(1);
        if self.in_pool(unit) {
            self.units.insert(unit, Unit::default());
            self.refresh(unit);
        } else {
            // Nothing to enter between two ranges: stand at the next range.
            let next = self.runs.iter().map(|r| r.first).find(|&first| first > unit);
            self.cursor = next.unwrap_or(u32::MAX);
        }
    }

    /// Brings the groups around `unit` up to date, as far up as anything changes.
    fn refresh(&mut self, unit: u32) {
        let mut group = unit;
        let mut age = self.units.get(&unit).filter(|s| s.takers == 0).map(|s| s.freed);
        for order in 0..self.ages.len() {
            if order > 0 {
                let (left, right) = (group, group ^ 1);
                age = self
                    .ages
                    .get(order - 1)
                    .and_then(|below| Some((*below.get(&left)?).max(*below.get(&right)?)));
                group >>= 1;
            }
            let (Some(ages), Some(ready)) = (self.ages.get_mut(order), self.ready.get_mut(order)) else {
                return;
            };
            let before = match age {
                Some(age) => ages.insert(group, age),
                None => ages.remove(&group),
            };
            if before == age {
                return;
            }
            if let Some(before) = before {
                ready.remove(&(before, group));
            }
            if let Some(age) = age {
                ready.insert((age, group));
            }
        }
    }
}

fn fits(run: Run, order: u32) -> bool {
    let first = run.first.checked_next_multiple_of(1 << order);
    first.and_then(|f| f.checked_add((1 << order) - 1)).is_some_and(|last| last <= run.last)
}
