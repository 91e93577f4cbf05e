//! Rebuilds a damaged database from the copy, the kubelet's records and the high-water mark.
//!
//! The copy has every lease. If the copy itself is damaged, or is of another boot and so may have lost its end in a power
//! loss, the kubelet's records stand for its pods, and every other block up to the high-water mark is pinned: it may
//! be in use, so it is not leased until an operator unpins it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ids::allocator::{Allocator, Blocks, LeaseId, State};
use ids::pool::IdPool;
use ids::{HostSpan, IdBlock, IdKind};

use crate::db::{Changes, Db, Head, ReadError, Rows};
use crate::error::LedgerError;
use crate::files;
use crate::holder::Holder;
use crate::kubelet;
use crate::lease::LeaseRequest;
use crate::lease_table::{LeaseTable, Moment};
use crate::mark::{Mark, MarkFile};
use crate::mirror::Mirror;
use crate::paths::{Paths, Terms};
use crate::row::{LeaseRow, PairStanding, Standing};

/// A ledger whose database cannot be used, and everything that it can be rebuilt from.
pub(crate) struct Damaged<'a> {
    pub(crate) paths: &'a Paths,
    pub(crate) terms: &'a Terms,
    pub(crate) mirror: &'a mut Mirror,
    pub(crate) mark: &'a mut MarkFile,
    /// What is wrong with the database.
    pub(crate) why: &'a str,
}

impl Damaged<'_> {
    /// Writes the files anew and returns what is in them, with the number of blocks that were pinned. The database must be
    /// closed.
    pub(crate) fn rebuild(self, moment: &Moment) -> Result<(LeaseTable, usize), LedgerError> {
        let copy = self.mirror.read()?;
        let mark = self.mark.read();
        let (seq, rows, whole) = copy.map_or((0, Rows::default(), false), |c| (c.seq, c.rows, c.whole));
        let reason = format!(
            "the ledger was damaged ({}) and no record names its holder; \
             `wardlet ids gc --unpin HOST_ID` frees it once nothing uses it",
            self.why
        );
        let next = next_number(&rows);
        let rows = if whole { rows } else { rows.distrusted(&reason) };
        let mut table = table_of(&self.terms.allocator(), Head { seq, next, ..Head::default() }, rows);
        let mut pinned = 0;
        if !whole {
            adopt_records(self.terms.kubelet_pods.as_deref(), &mut table, moment);
            pinned = pin_unknown(&mut table, mark, &reason, moment);
        }
        table.take_changes();
        self.replace_files(&table, whole, moment)?;
        Ok((table, pinned))
    }

    /// The old files go aside, whole, before the new one takes their name.
    fn replace_files(self, table: &LeaseTable, whole: bool, moment: &Moment) -> Result<(), LedgerError> {
        let fresh = write_database(&self.paths.db, table)?;
        let label = format!(".damaged-{}", moment.now);
        for suffix in ["", "-wal"] {
            set_aside(&files::beside(&self.paths.db, suffix), &label)?;
        }
        for suffix in ["-shm", "-journal"] {
            remove_if_there(&files::beside(&self.paths.db, suffix))?;
        }
        if !whole {
            keep_aside(&self.paths.mirror, &label)?;
        }
        durable::rename(&fresh, &self.paths.db)?;
        self.mirror.rewrite(table.head.seq, table.rows())?;
        let held = || table.leases.values().map(LeaseRow::blocks);
        self.mark.cover(held(), held())
    }
}

fn adopt_records(kubelet_pods: Option<&Path>, table: &mut LeaseTable, moment: &Moment) {
    let Some(pods) = kubelet_pods else { return };
    for record in kubelet::read_records(pods).unwrap_or_default() {
        if let Ok((holder, block)) = record.claim() {
            // What is in the way is known better from the copy.
            let _ = table.adopt(&LeaseRequest::new(holder), Blocks::same(block), moment);
        }
    }
}

/// The newest row of each block wins.
fn table_of(allocator: &Allocator, head: Head, mut rows: Rows) -> LeaseTable {
    rows.leases.sort_by_key(|r| std::cmp::Reverse(r.seq));
    let (mut table, _older) = LeaseTable::new(allocator.clone(), head, rows);
    table.forget_orphans();
    table.recount();
    table
}

/// A lease number that no row, of whatever age, has.
fn next_number(rows: &Rows) -> u64 {
    let leases = rows.leases.iter().map(|r| r.id.0);
    leases.chain(rows.members.iter().map(|m| m.lease.0)).max().unwrap_or(0) + 1
}

fn pin_unknown(table: &mut LeaseTable, mark: Option<Mark>, reason: &str, moment: &Moment) -> usize {
    let mark = mark.unwrap_or(Mark { uid: u32::MAX, gid: u32::MAX });
    let pool = table.allocator.pool().clone();
    let mut pinned = 0;
    for (kind, up_to) in [(IdKind::Uid, mark.uid), (IdKind::Gid, mark.gid)] {
        for block in unknown_blocks(table, &pool, kind, up_to) {
            let partner = if table.allocator.overlapping(other(kind), block).is_none() && pool.joint() {
                Some(block)
            } else {
                spare(table, &pool, other(kind), block)
            };
            let Some(partner) = partner else { continue };
            let blocks = match kind {
                IdKind::Uid => Blocks { uids: block, gids: partner },
                IdKind::Gid => Blocks { uids: partner, gids: block },
            };
            pinned += usize::from(table.pin(blocks, reason, moment));
        }
    }
    pinned
}

fn other(kind: IdKind) -> IdKind {
    match kind {
        IdKind::Uid => IdKind::Gid,
        IdKind::Gid => IdKind::Uid,
    }
}

/// The blocks of the pool that start at or below `up_to` and that no lease covers, each as long as possible.
fn unknown_blocks(table: &LeaseTable, pool: &IdPool, kind: IdKind, up_to: u32) -> Vec<IdBlock> {
    let unit = u64::from(pool.block());
    let mut blocks = Vec::new();
    for span in pool.spans(kind) {
        let mut base = u64::from(span.first());
        while base < span.end() && base <= u64::from(up_to) {
            let orders = (0..32u32).rev().filter_map(|k| pool.block().doubled(k));
            let fitting = orders.filter_map(|l| IdBlock::new(base, l.into()).ok()).find(|b| {
                span.covers(b.span())
                    && (b.length() == pool.block() || b.last().get() <= up_to)
                    && table.allocator.overlapping(kind, *b).is_none()
            });
            base += fitting.map_or(unit, |b| u64::from(b.length()));
            blocks.extend(fitting);
        }
    }
    blocks
}

/// A block of the other kind that no lease covers, outside the pool if there is one: a row always has both.
fn spare(table: &LeaseTable, pool: &IdPool, kind: IdKind, like: IdBlock) -> Option<IdBlock> {
    let length = u64::from(like.length());
    let nobodys = || {
        (1..u64::from(u32::MAX) / length)
            .filter_map(|i| IdBlock::new(i * length, length).ok())
            .filter(|b| table.allocator.overlapping(kind, *b).is_none())
    };
    let outside = |b: &IdBlock| !pool.spans(kind).iter().any(|s: &HostSpan| s.overlaps(b.span()));
    nobodys().find(outside).or_else(|| nobodys().next())
}

/// Makes an empty database where there is none.
///
/// SQLite secures the first pages of a file by a journal, and would have to sync the journal's name; here the file gets
/// its own name when it is whole.
pub(crate) fn make_database(path: &Path, allocator: Allocator) -> Result<(), LedgerError> {
    let (empty, _) = LeaseTable::new(allocator, Head { next: 1, ..Head::default() }, Rows::default());
    let fresh = write_database(path, &empty)?;
    // A journal of a killed process would be rolled back into a database that it does not belong to.
    remove_if_there(&files::beside(path, "-journal"))?;
    durable::sync_parent(path)?;
    Ok(durable::rename(&fresh, path)?)
}

/// Writes what is in the lease table to a file beside `path`, which it is to replace.
fn write_database(path: &Path, table: &LeaseTable) -> Result<PathBuf, LedgerError> {
    let fresh = files::beside(path, ".new");
    let remove = |suffixes: &[&str]| {
        suffixes.iter().try_for_each(|suffix| remove_if_there(&files::beside(&fresh, suffix)))
    };
    remove(&["", "-wal", "-shm", "-journal"])?;
    let failed = |e| match e {
        ReadError::Failed(e) => e,
        ReadError::Damaged(why) => LedgerError::io("make", &fresh, std::io::Error::other(why)),
    };
    files::make_private(&fresh)?;
    let db = Db::open(&fresh).map_err(failed)?;
    db.create_tables().map_err(failed)?;
    db.write(&Changes { rows: table.rows(), ..Changes::default() }, table.head).map_err(failed)?;
    db.checkpoint_and_close()?;
    remove(&["-wal", "-shm"])?;
    Ok(fresh)
}

fn set_aside(path: &Path, label: &str) -> Result<(), LedgerError> {
    match aside(path, label) {
        Some(aside) => Ok(durable::rename(path, &aside)?),
        None => Ok(()),
    }
}

/// Hard links the file to a second name and keeps the first: if the rebuild is interrupted, the next attempt needs the
/// damaged copy.
fn keep_aside(path: &Path, label: &str) -> Result<(), LedgerError> {
    let Some(aside) = aside(path, label) else { return Ok(()) };
    std::fs::hard_link(path, &aside).map_err(|e| LedgerError::io("link to", &aside, e))?;
    Ok(durable::sync_parent(path)?)
}

/// A name for a file that is to go aside; `None` if there is no file.
fn aside(path: &Path, label: &str) -> Option<PathBuf> {
    let free = |n: u32| -> Option<PathBuf> {
        let suffix = if n == 0 { label.to_owned() } else { format!("{label}-{n}") };
        let aside = files::beside(path, &suffix);
        (!aside.exists()).then_some(aside)
    };
    path.exists().then(|| (0..10_000).find_map(free))?
}

fn remove_if_there(path: &Path) -> Result<(), LedgerError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LedgerError::io("remove", path, e)),
        _ => Ok(()),
    }
}

impl Rows {
    /// The rows of a damaged copy that are still reliable: that a block is held. That it was released or is free may be
    /// out of date, and of two rows that name one holder the older one is.
    fn distrusted(mut self, reason: &str) -> Self {
        self.leases.retain(|r| r.standing != Standing::Free);
        self.pairs.retain(|r| !r.is_free());
        for row in &mut self.pairs {
            row.standing = PairStanding::Held;
        }
        self.leases.sort_by_key(|r| std::cmp::Reverse(r.seq));
        let own: HashMap<Holder, u64> =
            self.leases.iter().rev().filter_map(|r| Some((r.holder.clone()?, r.seq))).collect();
        self.members.retain(|m| !m.joined || own.get(&m.holder).is_none_or(|&seq| seq < m.seq));
        let mut named: HashSet<Holder> =
            self.members.iter().filter(|m| m.joined).map(|m| m.holder.clone()).collect();
        for row in &mut self.leases {
            row.holder = row.holder.take().filter(|h| named.insert(h.clone()));
            if row.holder.is_some() {
                row.standing = Standing::Held(State::Leased);
            } else {
                row.standing = Standing::Held(State::Pinned);
                row.shared = false;
                row.reason.get_or_insert_with(|| reason.to_owned());
            }
        }
        self
    }
}

impl LeaseTable {
    /// Makes the head vouch for the rows there are.
    fn recount(&mut self) {
        (self.head.count, self.head.sum) = self.rows().tally();
    }

    /// Pins a block. False if a lease covers any of it.
    fn pin(&mut self, blocks: Blocks, reason: &str, moment: &Moment) -> bool {
        let id = LeaseId(self.head.next);
        if self.allocator.adopt(id, blocks, State::Pinned).is_err() {
            return false;
        }
        let row = LeaseRow {
            seq: 0,
            id,
            uids: blocks.uids,
            gids: blocks.gids,
            standing: Standing::Held(State::Pinned),
            holder: None,
            shared: false,
            tenure: crate::lease::Tenure::Durable,
            since: moment.now,
            boot: moment.boot.clone(),
            categories: None,
            places: Vec::new(),
            reason: Some(reason.to_owned()),
        };
        self.put_new(row, moment);
        true
    }
}
