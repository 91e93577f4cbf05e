//! All leases in memory, and what a transaction changes about them.
//!
//! Every method either changes what it says or, on an error, nothing. The rows it leaves behind in
//! `changes` are then written as one.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use ids::allocator::{Allocator, Blocks, LeaseId, State};
use ids::witness::Sighting;
use ids::{IdBlock, IdKind};
use selinux::CategoryPair;

use crate::clock::BootId;
use crate::db::{Changes, Head, Rows};
use crate::error::LedgerError;
use crate::holder::Holder;
use crate::lease::{Categories, Lease, LeaseRequest};
use crate::pair_counts::PairCounts;
use crate::row::{LeaseRow, MemberRow, PairRow, Standing};

/// How many rows of free pairs are kept, so that other processes read that they are free. One that has missed more of
/// them reads everything anew.
const FREE_PAIR_ROWS: usize = 256;

/// The here and now that a change happens in.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) now: u64,
    pub(crate) boot: BootId,
}

/// All leases, their holders and members, and all category pairs, with the rows that are yet to be written.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    pub(crate) head: Head,
    pub(crate) allocator: Allocator,
    /// Held leases.
    pub(crate) leases: BTreeMap<LeaseId, LeaseRow>,
    /// Blocks that are free but were not always: their rows remember when they were freed.
    /// Keyed by first user ID and length.
    freed: BTreeMap<(u32, u32), LeaseRow>,
    holders: HashMap<Holder, LeaseId>,
    pub(crate) members: HashMap<Holder, MemberRow>,
    /// Pairs without a block, and rows of some that are free.
    pub(crate) pair_rows: HashMap<Holder, PairRow>,
    /// All pairs that are not free, of leases and of others.
    pub(crate) pairs: PairCounts,
    changes: Changes,
}

impl LeaseTable {
    /// From what is written down. A row that contradicts an earlier one is not taken in but returned.
    pub(crate) fn new(allocator: Allocator, head: Head, rows: Rows) -> (Self, Vec<LeaseId>) {
        let mut table = Self {
            head,
            allocator,
            leases: BTreeMap::new(),
            freed: BTreeMap::new(),
            holders: HashMap::new(),
            members: HashMap::new(),
            pair_rows: HashMap::new(),
            pairs: PairCounts::default(),
            changes: Changes::default(),
        };
        let (held, free): (Vec<_>, Vec<_>) = rows.leases.into_iter().partition(|r| r.state().is_some());
        let entered = held.iter().filter_map(|r| Some((r.id, r.blocks(), r.state()?))).collect();
        let contradicting = table.allocator.adopt_all(entered);
        for row in held.into_iter().filter(|r| !contradicting.contains(&r.id)) {
            table.index(row);
        }
        for row in free {
            table.allocator.remember_freed(row.blocks(), row.seq);
            table.freed.insert(freed_key(&row), row);
        }
        table.members = rows.members.into_iter().map(|m| (m.holder.clone(), m)).collect();
        for row in rows.pairs {
            table.index_pair(row);
        }
        (table, contradicting)
    }

    fn enter(&mut self, row: LeaseRow) -> Result<(), LeaseId> {
        let state = row.state().ok_or(row.id)?;
        self.allocator.adopt(row.id, row.blocks(), state).map_err(|_| row.id)?;
        self.index(row);
        Ok(())
    }

    fn index(&mut self, row: LeaseRow) {
        if let Some(holder) = &row.holder {
            self.holders.insert(holder.clone(), row.id);
        }
        if let Some(pair) = row.categories {
            self.pairs.add(pair);
        }
        self.leases.insert(row.id, row);
    }

    /// Takes in a row of a pair, and returns the one that it replaces.
    fn index_pair(&mut self, row: PairRow) -> Option<PairRow> {
        if !row.is_free() {
            self.pairs.add(row.pair);
        }
        let old = self.pair_rows.insert(row.holder.clone(), row);
        if let Some(old) = old.as_ref().filter(|old| !old.is_free()) {
            self.pairs.remove(old.pair);
        }
        old
    }

    /// Drops the oldest rows of free pairs where there are too many.
    fn forget_old_free_pairs(&mut self) -> Vec<PairRow> {
        let mut free: Vec<&PairRow> = self.pair_rows.values().filter(|row| row.is_free()).collect();
        let surplus = free.len().saturating_sub(FREE_PAIR_ROWS);
        if surplus == 0 {
            return Vec::new();
        }
        free.sort_by_key(|row| row.seq);
        let holders: Vec<Holder> = free.iter().take(surplus).map(|row| row.holder.clone()).collect();
        holders.iter().filter_map(|holder| self.pair_rows.remove(holder)).collect()
    }

    /// Takes in rows that another process has written since `self.head`. They must add up to what the
    /// new head vouches for: SQLite does not check what it reads from a log that is in use.
    pub(crate) fn catch_up(&mut self, head: Head, rows: Rows) -> Result<(), String> {
        let mut tally = Tally { count: self.head.count, sum: self.head.sum };
        for row in rows.leases {
            tally.add(row.digest());
            tally.drop_all(self.forget(row.id).iter().map(LeaseRow::digest));
            if row.standing == Standing::Free {
                self.allocator.remember_freed(row.blocks(), row.seq);
                let left = self.members.extract_if(|_, m| m.lease == row.id);
                tally.drop_all(left.map(|(_, m)| m.digest()));
                tally.drop_all(self.freed.insert(freed_key(&row), row).iter().map(LeaseRow::digest));
            } else {
                tally.drop_all(self.forget_freed_inside(row.uids).iter().map(LeaseRow::digest));
                self.enter(row).map_err(|id| format!("lease {} contradicts another", id.0))?;
            }
        }
        for row in rows.members {
            tally.add(row.digest());
            tally.drop_all(self.members.insert(row.holder.clone(), row).iter().map(MemberRow::digest));
        }
        for row in rows.pairs {
            tally.add(row.digest());
            tally.drop_all(self.index_pair(row).iter().map(PairRow::digest));
            tally.drop_all(self.forget_old_free_pairs().iter().map(PairRow::digest));
        }
        self.head = head;
        let vouched = Tally { count: head.count, sum: head.sum };
        if tally == vouched { Ok(()) } else { Err("its new rows do not match its head".to_owned()) }
    }

    /// Drops a lease from memory, as if it had never been read.
    fn forget(&mut self, id: LeaseId) -> Option<LeaseRow> {
        let row = self.leases.remove(&id)?;
        self.allocator.forget(id);
        if let Some(holder) = &row.holder {
            self.holders.remove(holder);
        }
        if let Some(pair) = row.categories {
            self.pairs.remove(pair);
        }
        Some(row)
    }

    /// Drops members of leases that there are not.
    pub(crate) fn forget_orphans(&mut self) {
        self.members.retain(|_, m| self.leases.contains_key(&m.lease));
    }

    fn forget_freed_inside(&mut self, block: IdBlock) -> Vec<LeaseRow> {
        let starting = self.freed.range((block.base().get(), 0)..=(block.last().get(), u32::MAX));
        let inside = starting.filter(|(_, row)| block.span().covers(row.uids.span()));
        let keys: Vec<(u32, u32)> = inside.map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| self.freed.remove(key)).collect()
    }

    /// Hands over what has changed since the last call, with the head brought up to date.
    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// The rows of all leases, those of free blocks included.
    pub(crate) fn lease_rows(&self) -> impl Iterator<Item = &LeaseRow> {
        self.leases.values().chain(self.freed.values())
    }

    /// A copy of all rows.
    pub(crate) fn rows(&self) -> Rows {
        Rows {
            leases: self.lease_rows().cloned().collect(),
            members: self.members.values().cloned().collect(),
            pairs: self.pair_rows.values().cloned().collect(),
        }
    }

    /// The lease that `holder` has or has joined.
    pub(crate) fn lease_of(&self, holder: &Holder) -> Option<&LeaseRow> {
        let joined = self.members.get(holder).filter(|m| m.joined).map(|m| m.lease);
        self.leases.get(&joined.or_else(|| self.holders.get(holder).copied())?)
    }

    pub(crate) fn holder_name(&self, id: LeaseId) -> Option<Holder> {
        self.leases.get(&id).and_then(|r| r.holder.clone())
    }

    /// Gives `request.holder` a block, or the one it has.
    pub(crate) fn lease(
        &mut self,
        request: &LeaseRequest,
        seen: &Sighting,
        moment: &Moment,
    ) -> Result<Lease, LedgerError> {
        self.refuse_member(&request.holder)?;
        if let Some(id) = self.holders.get(&request.holder).copied() {
            return self.confirm(id, request, moment);
        }
        let id = LeaseId(self.head.next);
        let categories = self.pair_for(request)?;
        let length = request.length.unwrap_or(self.allocator.pool().block());
        let avoid = |kind: IdKind, block: IdBlock| seen.users(kind, block.span()).next().map(|u| u.ids);
        let leased = self.allocator.lease(id, length, &avoid);
        let blocks =
            leased.map_err(|source| LedgerError::Lease { holder: request.holder.clone(), source })?;
        let row = LeaseRow { categories, ..new_row(id, blocks, request, moment) };
        Ok(self.put_new(row, moment))
    }

    /// Writes down a row whose block the allocator has just given or adopted.
    pub(crate) fn put_new(&mut self, row: LeaseRow, moment: &Moment) -> Lease {
        self.head.next = self.head.next.max(row.id.0 + 1);
        for old in self.forget_freed_inside(row.uids) {
            self.remove_lease_row(&old);
        }
        if let Some(pair) = row.categories {
            self.pairs.add(pair);
            self.head.pair = next_pair(pair);
        }
        if let Some(holder) = &row.holder {
            self.holders.insert(holder.clone(), row.id);
        }
        self.put(row, moment)
    }

    /// The holder asks again: the same block, however far on its way to being free it was.
    fn confirm(&mut self, id: LeaseId, r: &LeaseRequest, moment: &Moment) -> Result<Lease, LedgerError> {
        let Some(row) = self.leases.get(&id).cloned() else {
            return Err(ids::allocator::Transition::Unknown(id).into());
        };
        if row.shared {
            return Err(LedgerError::OtherSort { holder: r.holder.clone(), shared: true });
        }
        let has = row.uids.length().get();
        if let Some(asked) = r.length.map(ids::BlockLength::get).filter(|&asked| asked != has) {
            return Err(LedgerError::OtherLength { holder: r.holder.clone(), has, asked });
        }
        let wants_pair = r.categories == Categories::Pair && row.categories.is_none();
        let pair = if wants_pair { self.pair_for(r)? } else { None };
        let mut fresh = row.clone();
        if row.state() != Some(State::Leased) {
            self.allocator.advance(id, State::Leased)?;
            fresh.standing = Standing::Held(State::Leased);
            fresh.since = moment.now;
        }
        fresh.boot = moment.boot.clone();
        let places = place_names(r).into_iter().filter(|p| !row.places.contains(p));
        fresh.places.extend(places);
        if let Some(pair) = pair {
            fresh.categories = Some(pair);
            self.pairs.add(pair);
            self.head.pair = next_pair(pair);
        }
        if fresh == row { Ok(self.view(&row, moment)) } else { Ok(self.put(fresh, moment)) }
    }

    /// Only a lease that is held can have more places: one on its way to being free stays on it.
    /// Those of its places that are not `left` go: a pod whose containers start over and over would have ever more.
    pub(crate) fn add_places(
        &mut self,
        r: &LeaseRequest,
        left: impl FnOnce(&[PathBuf]) -> Vec<PathBuf>,
        moment: &Moment,
    ) -> Result<Lease, LedgerError> {
        let held = self.lease_of(&r.holder).filter(|row| row.state() == Some(State::Leased)).cloned();
        let Some(mut row) = held else { return Err(LedgerError::NotHeld { holder: r.holder.clone() }) };
        let new: Vec<String> = place_names(r).into_iter().filter(|p| !row.places.contains(p)).collect();
        if new.is_empty() {
            return Ok(self.view(&row, moment));
        }
        let had: Vec<PathBuf> = row.places.iter().map(PathBuf::from).collect();
        let left = left(&had);
        row.places.retain(|place| left.iter().any(|left| left.as_os_str() == place.as_str()));
        row.places.extend(new);
        Ok(self.put(row, moment))
    }

    /// Refuses a name that has joined a shared lease.
    pub(crate) fn refuse_member(&self, holder: &Holder) -> Result<(), LedgerError> {
        let Some(member) = self.members.get(holder).filter(|m| m.joined) else { return Ok(()) };
        let shared = self.holder_name(member.lease).unwrap_or_else(|| holder.clone());
        Err(LedgerError::Joined { holder: holder.clone(), shared })
    }

    /// Sends a lease on its way; what its state was does not matter to a caller.
    pub(crate) fn set_state(
        &mut self,
        id: LeaseId,
        state: State,
        moment: &Moment,
    ) -> Result<Lease, LedgerError> {
        self.allocator.advance(id, state)?;
        let Some(mut row) = self.leases.get(&id).cloned() else {
            return Err(ids::allocator::Transition::Unknown(id).into());
        };
        row.standing = Standing::Held(state);
        row.since = moment.now;
        Ok(self.put(row, moment))
    }

    /// The end of the way.
    pub(crate) fn free(&mut self, id: LeaseId, moment: &Moment) -> Result<(), LedgerError> {
        self.allocator.free(id, moment.now, self.head.seq + 1)?;
        let Some(old) = self.leases.remove(&id) else { return Ok(()) };
        if let Some(holder) = &old.holder {
            self.holders.remove(holder);
        }
        if let Some(pair) = old.categories {
            self.pairs.remove(pair);
        }
        let gone: Vec<Holder> =
            self.members.values().filter(|m| m.lease == id).map(|m| m.holder.clone()).collect();
        for member in gone.iter().filter_map(|h| self.members.remove(h)).collect::<Vec<_>>() {
            self.remove_member_row(&member);
        }
        self.remove_lease_row(&old);
        let mut row = LeaseRow {
            standing: Standing::Free,
            holder: None,
            shared: false,
            since: moment.now,
            categories: None,
            places: Vec::new(),
            reason: None,
            ..old
        };
        self.number(&mut row);
        self.freed.insert(freed_key(&row), row.clone());
        self.changes.rows.leases.push(row);
        Ok(())
    }

    /// Writes a changed or new row of a held lease.
    pub(crate) fn put(&mut self, mut row: LeaseRow, moment: &Moment) -> Lease {
        if let Some(old) = self.leases.remove(&row.id) {
            self.remove_lease_row(&old);
        }
        self.number(&mut row);
        self.changes.rows.leases.push(row.clone());
        let lease = self.view(&row, moment);
        self.leases.insert(row.id, row);
        lease
    }

    pub(crate) fn put_member(&mut self, mut row: MemberRow) {
        if let Some(old) = self.members.remove(&row.holder) {
            self.remove_member_row(&old);
        }
        self.head.seq += 1;
        row.seq = self.head.seq;
        self.head.count += 1;
        self.head.sum = self.head.sum.wrapping_add(row.digest());
        self.changes.rows.members.push(row.clone());
        self.members.insert(row.holder.clone(), row);
    }

    /// Writes a changed or new row of a pair.
    pub(crate) fn put_pair(&mut self, mut row: PairRow) {
        self.head.seq += 1;
        row.seq = self.head.seq;
        self.head.count += 1;
        self.head.sum = self.head.sum.wrapping_add(row.digest());
        self.changes.rows.pairs.push(row.clone());
        let replaced = self.index_pair(row);
        for old in replaced.into_iter().chain(self.forget_old_free_pairs()) {
            self.remove_pair_row(&old);
        }
    }

    fn number(&mut self, row: &mut LeaseRow) {
        self.head.seq += 1;
        row.seq = self.head.seq;
        self.head.count += 1;
        self.head.sum = self.head.sum.wrapping_add(row.digest());
    }

    fn remove_lease_row(&mut self, row: &LeaseRow) {
        self.head.count -= 1;
        self.head.sum = self.head.sum.wrapping_sub(row.digest());
        self.changes.removed_leases.push(row.seq);
    }

    fn remove_member_row(&mut self, row: &MemberRow) {
        self.head.count -= 1;
        self.head.sum = self.head.sum.wrapping_sub(row.digest());
        self.changes.removed_members.push(row.seq);
    }

    fn remove_pair_row(&mut self, row: &PairRow) {
        self.head.count -= 1;
        self.head.sum = self.head.sum.wrapping_sub(row.digest());
        self.changes.removed_pairs.push(row.seq);
    }
}

/// A new row of a held lease, without categories.
pub(crate) fn new_row(id: LeaseId, blocks: Blocks, r: &LeaseRequest, moment: &Moment) -> LeaseRow {
    LeaseRow {
        seq: 0,
        id,
        uids: blocks.uids,
        gids: blocks.gids,
        standing: Standing::Held(State::Leased),
        holder: Some(r.holder.clone()),
        shared: false,
        tenure: r.tenure,
        since: moment.now,
        boot: moment.boot.clone(),
        categories: None,
        places: place_names(r),
        reason: None,
    }
}

/// How many rows there are and what their digests add up to.
#[derive(PartialEq, Eq)]
struct Tally {
    count: u64,
    sum: u64,
}

impl Tally {
    fn add(&mut self, digest: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(digest);
    }

    fn drop_all(&mut self, digests: impl Iterator<Item = u64>) {
        for digest in digests {
            self.count = self.count.wrapping_sub(1);
            self.sum = self.sum.wrapping_sub(digest);
        }
    }
}

pub(crate) fn place_names(r: &LeaseRequest) -> Vec<String> {
    r.places.iter().filter_map(|p| p.to_str().map(str::to_owned)).collect()
}

fn freed_key(row: &LeaseRow) -> (u32, u32) {
    (row.uids.base().get(), row.uids.length().get())
}

/// The number after a pair's, in the order in which pairs are counted.
fn next_pair(pair: CategoryPair) -> u32 {
    let before = pair.high() * (pair.high() - 1) / 2;
    (before + pair.low() + 1) % CategoryPair::COUNT
}
