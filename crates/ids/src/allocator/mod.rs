//! The state of every block: free → leased → draining → quarantined → free.
//!
//! The caller decides on each transition, and the allocator checks that it is allowed; the allocator decides only
//! *which* block a lease gets. It neither reads the time nor scans the host: the caller passes both in.

mod error;
mod lane;
#[cfg(test)]
mod model;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::block::{BlockLength, IdBlock};
use crate::id::IdKind;
use crate::pool::IdPool;
use crate::span::HostSpan;
pub use error::{Adoption, LeaseError, Shortage, Transition};
use lane::Lane;

/// One lease, for as long as its block is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId(pub u64);

/// The user and group IDs of one lease; equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The user IDs.
    pub uids: IdBlock,
    /// The group IDs.
    pub gids: IdBlock,
}

impl Blocks {
    /// The same block for both.
    #[must_use]
    pub fn same(block: IdBlock) -> Self {
        Self { uids: block, gids: block }
    }

    /// The block of a kind.
    #[must_use]
    pub fn of(self, kind: IdKind) -> IdBlock {
        match kind {
            IdKind::Uid => self.uids,
            IdKind::Gid => self.gids,
        }
    }
}

/// Where a block stands between two times of being free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum State {
    /// It has a holder.
    Leased,
    /// Its holder has released it; whether its IDs are still in use is not known yet.
    Draining,
    /// Seen to be vacant; rests until this second.
    Quarantined {
        /// Seconds since 1970.
        until: u64,
    },
    /// It is not known whether it is in use: it stays pinned until an operator unpins it.
    Pinned,
}

/// How many leases stand where, and how many blocks of the node's length are free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Leases with a holder.
    pub leased: u32,
    /// Leases given back but not yet seen to be vacant.
    pub draining: u32,
    /// Leases that rest.
    pub quarantined: u32,
    /// Blocks about which nothing is known.
    pub pinned: u32,
    /// Free blocks of the node's length.
    pub free: u32,
    /// All blocks of the node's length.
    pub pool: u32,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    blocks: Blocks,
    state: State,
}

/// The allocator itself.
#[derive(Debug, Clone)]
pub struct Allocator {
    pool: IdPool,
    /// The most leases that may be held at once.
    cap: Option<u32>,
    /// User IDs; group IDs too where the pool is joint.
    uids: Lane,
    /// Group IDs where they have a pool of their own.
    gids: Option<Lane>,
    held: BTreeMap<LeaseId, Held>,
    /// First ID of every held block, by kind: held blocks of a kind never overlap.
    by_base: BTreeMap<(IdKind, u32), LeaseId>,
    /// The states in `held`, counted.
    tally: Tally,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    leased: u32,
    draining: u32,
    quarantined: u32,
    pinned: u32,
}

impl Tally {
    fn of(&mut self, state: State) -> &mut u32 {
        match state {
            State::Leased => &mut self.leased,
            State::Draining => &mut self.draining,
            State::Quarantined { .. } => &mut self.quarantined,
            State::Pinned => &mut self.pinned,
        }
    }
}

impl Allocator {
    /// An allocator over `pool` with everything free.
    #[must_use]
    pub fn new(pool: IdPool, cap: Option<u32>) -> Self {
        let lane = |kind| Lane::new(pool.block(), pool.runs(kind).to_vec());
        Self {
            uids: lane(IdKind::Uid),
            gids: (!pool.joint()).then(|| lane(IdKind::Gid)),
            pool,
            cap,
            held: BTreeMap::new(),
            by_base: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// The pool it gives from.
    #[must_use]
    pub fn pool(&self) -> &IdPool {
        &self.pool
    }

    /// Gives `id` the blocks of this length that were used longest ago and that `avoid` does not
    /// object to; it answers with whose span is in the way.
    pub fn lease(
        &mut self,
        id: LeaseId,
        length: BlockLength,
        avoid: &dyn Fn(IdKind, IdBlock) -> Option<HostSpan>,
    ) -> Result<Blocks, LeaseError> {
        let order = self.order(length)?;
        let leased = self.tally.leased;
        if let Some(cap) = self.cap.filter(|&cap| leased >= cap) {
            return Err(LeaseError::OverCap { cap, leased });
        }
        let blocks = self.pick(order, length, avoid)?;
        self.adopt(id, blocks, State::Leased).map_err(LeaseError::Adoption)?;
        Ok(blocks)
    }

    fn pick(
        &mut self,
        order: u32,
        length: BlockLength,
        avoid: &dyn Fn(IdKind, IdBlock) -> Option<HostSpan>,
    ) -> Result<Blocks, LeaseError> {
        let by_base = &self.by_base;
        let held = &self.held;
        // Blocks held from outside the pool or with another length are avoided like those of any other holder.
        let in_the_way = |kind, block: IdBlock| {
            overlapping(by_base, held, kind, block).map(|(_, b)| b.span()).or_else(|| avoid(kind, block))
        };
        let both = |block| in_the_way(IdKind::Uid, block).or_else(|| in_the_way(IdKind::Gid, block));
        let picked = match &mut self.gids {
            None => self.uids.pick(order, &both).map(Blocks::same),
            Some(gids) => {
                let uids = self.uids.pick(order, &|b| in_the_way(IdKind::Uid, b));
                let gids = gids.pick(order, &|b| in_the_way(IdKind::Gid, b));
                uids.zip(gids).map(|(uids, gids)| Blocks { uids, gids })
            }
        };
        picked.ok_or_else(|| LeaseError::Exhausted(Shortage { asked: length, counts: self.counts() }))
    }

    /// Enters blocks that are held already: from the ledger, from a kubelet's record. They may lie outside the pool.
    pub fn adopt(&mut self, id: LeaseId, blocks: Blocks, state: State) -> Result<(), Adoption> {
        if self.held.contains_key(&id) {
            return Err(Adoption::Known(id));
        }
        for kind in [IdKind::Uid, IdKind::Gid] {
            let block = blocks.of(kind);
            if let Some((with, theirs)) = self.overlapping(kind, block) {
                return Err(Adoption::Overlapping { kind, block, with, theirs });
            }
        }
        self.take(blocks);
        for kind in [IdKind::Uid, IdKind::Gid] {
            self.by_base.insert((kind, blocks.of(kind).base().get()), id);
        }
        self.held.insert(id, Held { blocks, state });
        *self.tally.of(state) += 1;
        Ok(())
    }

    /// Enters many at once, as at a start: like [`Self::adopt`] for each, in one pass. Those that contradict
    /// one before them, in the order given, are not entered but returned.
    pub fn adopt_all(&mut self, mut leases: Vec<(LeaseId, Blocks, State)>) -> Vec<LeaseId> {
        let first = |kind: IdKind| move |l: &&(LeaseId, Blocks, State)| l.1.of(kind).base();
        let apart = |kind: IdKind| {
            let mut sorted: Vec<&(LeaseId, Blocks, State)> = leases.iter().collect();
            sorted.sort_unstable_by_key(first(kind));
            sorted.windows(2).all(|pair| matches!(pair, [a, b] if a.1.of(kind).last() < b.1.of(kind).base()))
        };
        let ids: std::collections::HashSet<LeaseId> = leases.iter().map(|l| l.0).collect();
        let simple = self.held.is_empty() && ids.len() == leases.len();
        if !simple || !apart(IdKind::Uid) || !apart(IdKind::Gid) {
            let refused = |(id, blocks, state)| self.adopt(id, blocks, state).err().map(|_| id);
            return leases.into_iter().filter_map(refused).collect();
        }
        // From the lowest up: what is taken next was never entered as free.
        leases.sort_unstable_by_key(|lease| lease.1.uids.base());
        for &(_, blocks, state) in &leases {
            self.take(blocks);
            *self.tally.of(state) += 1;
        }
        let bases = |kind: IdKind| leases.iter().map(move |l| ((kind, l.1.of(kind).base().get()), l.0));
        self.by_base = bases(IdKind::Uid).chain(bases(IdKind::Gid)).collect();
        self.held = leases.iter().map(|&(id, blocks, state)| (id, Held { blocks, state })).collect();
        Vec::new()
    }

    fn take(&mut self, blocks: Blocks) {
        for (kind, lane) in lanes(&mut self.uids, &mut self.gids) {
            lane.take(blocks.of(kind));
        }
        if self.gids.is_none() && blocks.uids != blocks.gids {
            self.uids.take(blocks.gids);
        }
    }

    /// Remembers that `blocks` were freed before, so that their age counts.
    pub fn remember_freed(&mut self, blocks: Blocks, freed: u64) {
        for (kind, lane) in lanes(&mut self.uids, &mut self.gids) {
            lane.remember(blocks.of(kind), freed);
        }
    }

    /// Moves `id` along its way; what is not on the way is refused.
    pub fn advance(&mut self, id: LeaseId, to: State) -> Result<(), Transition> {
        let held = self.held.get_mut(&id).ok_or(Transition::Unknown(id))?;
        let allowed = matches!(
            (held.state, to),
            (State::Leased | State::Pinned, State::Draining)
                // The same holder came back before another one got the block.
                | (State::Draining | State::Quarantined { .. }, State::Leased)
                | (State::Draining, State::Quarantined { .. })
                // Seen to be in use while it rested.
                | (State::Quarantined { .. }, State::Draining)
        );
        if !allowed {
            return Err(Transition::NotOnTheWay { id, from: held.state, to });
        }
        *self.tally.of(held.state) -= 1;
        *self.tally.of(to) += 1;
        held.state = to;
        Ok(())
    }

    /// The end of the way: the rest is over at `now`, the block is free. `freed` is its place in the
    /// order of all that were ever freed.
    pub fn free(&mut self, id: LeaseId, now: u64, freed: u64) -> Result<Blocks, Transition> {
        let held = self.held.get(&id).copied().ok_or(Transition::Unknown(id))?;
        match held.state {
            State::Quarantined { until } if until <= now => {}
            State::Quarantined { until } => return Err(Transition::StillResting { id, until, now }),
            from => return Err(Transition::NotVacant { id, from }),
        }
        self.let_go(id, held, freed);
        Ok(held.blocks)
    }

    /// Drops a lease from memory as if it had never been entered, because its holder has entered it
    /// anew or freed it in another process. The block's age is not touched.
    pub fn forget(&mut self, id: LeaseId) {
        if let Some(held) = self.held.get(&id).copied() {
            self.let_go(id, held, 0);
        }
    }

    fn let_go(&mut self, id: LeaseId, held: Held, freed: u64) {
        self.held.remove(&id);
        *self.tally.of(held.state) -= 1;
        for kind in [IdKind::Uid, IdKind::Gid] {
            self.by_base.remove(&(kind, held.blocks.of(kind).base().get()));
        }
        for (kind, lane) in lanes(&mut self.uids, &mut self.gids) {
            lane.give_back(held.blocks.of(kind), freed);
        }
        if self.gids.is_none() && held.blocks.uids != held.blocks.gids {
            self.uids.give_back(held.blocks.gids, freed);
        }
    }

    /// The held block that shares an ID with `block`.
    #[must_use]
    pub fn overlapping(&self, kind: IdKind, block: IdBlock) -> Option<(LeaseId, IdBlock)> {
        overlapping(&self.by_base, &self.held, kind, block)
    }

    /// The state of a held lease.
    #[must_use]
    pub fn state(&self, id: LeaseId) -> Option<State> {
        self.held.get(&id).map(|h| h.state)
    }

    /// How many leases stand where.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let free = self.gids.as_ref().map_or(u32::MAX, Lane::free_units).min(self.uids.free_units());
        let Tally { leased, draining, quarantined, pinned } = self.tally;
        Counts { leased, draining, quarantined, pinned, free, pool: self.pool.capacity() }
    }

    /// Which power of two of the node's block length this is.
    fn order(&self, length: BlockLength) -> Result<u32, LeaseError> {
        let (unit, asked) = (u64::from(self.pool.block()), u64::from(length));
        let times = asked / unit;
        if asked % unit != 0 || !times.is_power_of_two() {
            return Err(size_error(self.pool.block(), asked));
        }
        let order = times.trailing_zeros();
        let largest = [Some(&self.uids), self.gids.as_ref()].into_iter().flatten();
        let largest = largest.filter_map(Lane::largest_order).min().unwrap_or(0);
        if order > largest {
            let largest = self.pool.block().doubled(largest).unwrap_or(self.pool.block());
            return Err(LeaseError::TooLarge { asked: length, largest });
        }
        Ok(order)
    }
}

/// Says which lengths near `asked` a lease can have on a node with this block length.
#[must_use]
pub fn size_error(unit: BlockLength, asked: u64) -> LeaseError {
    let fitting = |k: u32| unit.doubled(k).map(u64::from);
    let below = (0..32).filter_map(fitting).take_while(|&l| l <= asked).last();
    let above = (0..32).filter_map(fitting).find(|&l| l >= asked);
    let nearest = below.or(above).unwrap_or_else(|| u64::from(unit));
    LeaseError::Size { asked, below: below.unwrap_or(nearest), above: above.unwrap_or(nearest) }
}

fn lanes<'a>(uids: &'a mut Lane, gids: &'a mut Option<Lane>) -> impl Iterator<Item = (IdKind, &'a mut Lane)> {
    std::iter::once((IdKind::Uid, uids)).chain(gids.iter_mut().map(|g| (IdKind::Gid, g)))
}

fn overlapping(
    by_base: &BTreeMap<(IdKind, u32), LeaseId>,
    held: &BTreeMap<LeaseId, Held>,
    kind: IdKind,
    block: IdBlock,
) -> Option<(LeaseId, IdBlock)> {
    // Held blocks are disjoint: only the one that starts last at or before our end can reach in.
    let (_, id) = by_base.range((kind, 0)..=(kind, block.last().get())).next_back()?;
    let theirs = held.get(id)?.blocks.of(kind);
    theirs.overlaps(block).then_some((*id, theirs))
}
