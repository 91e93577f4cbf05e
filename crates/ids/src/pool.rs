//! Which blocks this node may lease, and where that was configured.
//!
//! User and group IDs are two lanes of blocks. As long as both lanes are alike, a lease has the same
//! block in both, as Kubernetes expects; where they differ, each side has its own.

use std::fmt;

use serde::Serialize;

use crate::block::{BlockLength, IdBlock, UNIT};
use crate::id::{HostId, IdKind};
use crate::span::HostSpan;

/// A range of host IDs and where it is written, such as `/etc/subuid line 3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSpan {
    /// The IDs.
    pub ids: HostSpan,
    /// Where that is said.
    pub origin: String,
}

/// Where the pool was configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "from")]
pub enum PoolOrigin {
    /// The operator, in this file.
    Configuration {
        /// Its path.
        file: String,
    },
    /// The entries of this user in subuid and subgid.
    Subids {
        /// The user's name.
        owner: String,
    },
    /// Nowhere: everything from 65536 up.
    Default,
}

impl fmt::Display for PoolOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration { file } => write!(f, "configured in {file}"),
            Self::Subids { owner } => write!(f, "subuid and subgid entries of user {owner}"),
            Self::Default => f.write_str("default: everything from 65536 up, nothing else is configured"),
        }
    }
}

/// What a pool is to be made of.
#[derive(Debug, Clone)]
pub struct PoolRequest {
    /// The node's block length.
    pub block: BlockLength,
    /// Ranges of user IDs.
    pub uids: Vec<NamedSpan>,
    /// Ranges of group IDs.
    pub gids: Vec<NamedSpan>,
    /// IDs of either kind that must not be given out; a block that touches one is left out.
    pub excluded: Vec<HostSpan>,
    /// Where it was configured.
    pub origin: PoolOrigin,
}

/// A pool that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// A range touches the host's own IDs.
    #[error("{origin}: {kind}s {ids} overlap the host's own IDs 0-65535")]
    Host {
        /// Where the range is written.
        origin: String,
        /// User or group IDs.
        kind: IdKind,
        /// The range.
        ids: HostSpan,
    },
    /// A range does not start at a multiple of the block length.
    #[error("{origin}: {kind}s {ids} start at {}, which is not a multiple of the block length {block}", ids.first())]
    Unaligned {
        /// Where the range is written.
        origin: String,
        /// User or group IDs.
        kind: IdKind,
        /// The range.
        ids: HostSpan,
        /// The node's block length.
        block: BlockLength,
    },
    /// A range is not a whole number of blocks, or less than one.
    #[error("{origin}: {kind}s {ids} are {} IDs, {}", ids.length(), not_whole(*ids, *block))]
    NotWhole {
        /// Where the range is written.
        origin: String,
        /// User or group IDs.
        kind: IdKind,
        /// The range.
        ids: HostSpan,
        /// The node's block length.
        block: BlockLength,
    },
    /// Two ranges give the same IDs.
    #[error("{first} and {second} both give {kind}s {both}")]
    Twice {
        /// Where the one is written.
        first: String,
        /// Where the other is written.
        second: String,
        /// User or group IDs.
        kind: IdKind,
        /// What they share.
        both: HostSpan,
    },
    /// Nothing is left to give out.
    #[error("the pool has no {kind} block of {block} IDs to give out")]
    Empty {
        /// User or group IDs.
        kind: IdKind,
        /// The node's block length.
        block: BlockLength,
    },
}

fn not_whole(ids: HostSpan, block: BlockLength) -> String {
    if ids.length() < u64::from(block) {
        format!("too short for one block of {block}")
    } else {
        format!("not a multiple of the block length {block}")
    }
}

impl PoolError {
    /// The way out.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Host { ids, .. } => {
                let first = UNIT;
                match ids.end().checked_sub(first).filter(|&n| n >= UNIT) {
                    Some(rest) => format!("start it at {first} with {} IDs", rest / UNIT * UNIT),
                    None => format!("move it to {first} or above"),
                }
            }
            Self::Unaligned { ids, block, .. } | Self::NotWhole { ids, block, .. } => {
                let n = u64::from(*block);
                let first = u64::from(ids.first()).div_ceil(n).max(1) * n;
                match ids.end().checked_sub(first).map(|rest| rest / n).filter(|&blocks| blocks > 0) {
                    Some(blocks) => format!("start it at {first} with {} IDs ({blocks} blocks)", blocks * n),
                    None => format!("give it at least {n} IDs from a multiple of {n}, such as {first}"),
                }
            }
            Self::Twice { .. } => "leave the shared IDs out of one of them".to_owned(),
            Self::Empty { .. } => "exclude less, or give it more ranges".to_owned(),
        }
    }
}

/// A run of whole blocks, counted in block lengths from ID 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u32,
    /// Inclusive.
    pub(crate) last: u32,
}

/// The blocks that may be leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdPool {
    block: BlockLength,
    uids: Vec<Run>,
    gids: Vec<Run>,
    origin: PoolOrigin,
}

impl IdPool {
    /// Checks every range by itself and against the others, then leaves out what is excluded.
    pub fn new(request: PoolRequest) -> Result<Self, PoolError> {
        let lane = |kind, spans: &[NamedSpan]| lane(kind, spans, request.block, &request.excluded);
        Ok(Self {
            block: request.block,
            uids: lane(IdKind::Uid, &request.uids)?,
            gids: lane(IdKind::Gid, &request.gids)?,
            origin: request.origin,
        })
    }

    /// Everything from 65536 up to the last block that the kernel can map, less what is excluded.
    pub fn default_for(block: BlockLength, excluded: Vec<HostSpan>) -> Result<Self, PoolError> {
        let n = u64::from(block);
        // ID 2^32-1 lies in the last block of the space, whatever the length; the space ends before it.
        let blocks = (u64::from(u32::MAX) / n).saturating_sub(1);
        let all = HostSpan::new(n, blocks * n).map_err(|_| PoolError::Empty { kind: IdKind::Uid, block })?;
        let all = vec![NamedSpan { ids: all, origin: "default".to_owned() }];
        Self::new(PoolRequest { block, uids: all.clone(), gids: all, excluded, origin: PoolOrigin::Default })
    }

    /// The node's block length: what a lease has unless it asks for more.
    #[must_use]
    pub fn block(&self) -> BlockLength {
        self.block
    }

    /// Where this pool was configured.
    #[must_use]
    pub fn origin(&self) -> &PoolOrigin {
        &self.origin
    }

    /// Whether user and group IDs come from the same blocks.
    #[must_use]
    pub fn joint(&self) -> bool {
        self.uids == self.gids
    }

    pub(crate) fn runs(&self, kind: IdKind) -> &[Run] {
        match kind {
            IdKind::Uid => &self.uids,
            IdKind::Gid => &self.gids,
        }
    }

    /// How many blocks of the node's length there are of a kind.
    #[must_use]
    pub fn blocks(&self, kind: IdKind) -> u32 {
        self.runs(kind).iter().map(|r| r.last - r.first + 1).sum()
    }

    /// How many leases of the node's block length fit.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.blocks(IdKind::Uid).min(self.blocks(IdKind::Gid))
    }

    /// The ranges of a kind, for people.
    #[must_use]
    pub fn spans(&self, kind: IdKind) -> Vec<HostSpan> {
        let n = u64::from(self.block);
        let span = |r: &Run| HostSpan::new(u64::from(r.first) * n, u64::from(r.last - r.first + 1) * n).ok();
        self.runs(kind).iter().filter_map(span).collect()
    }

    /// Whether all of `block` belongs to the pool.
    #[must_use]
    pub fn holds(&self, kind: IdKind, block: IdBlock) -> bool {
        self.spans(kind).iter().any(|s| s.covers(block.span()))
    }

    /// What an operator should know about this pool though it works.
    #[must_use]
    pub fn notes(&self, max_pods: Option<u32>) -> Vec<String> {
        let (uids, gids) = (self.blocks(IdKind::Uid), self.blocks(IdKind::Gid));
        let mut notes = Vec::new();
        if uids != gids {
            let fit = uids.min(gids);
            notes.push(format!(
                "the user ID ranges hold {uids} blocks and the group ID ranges {gids}: {fit} leases fit"
            ));
        }
        if let Some(max) = max_pods.filter(|&max| max > self.capacity()) {
            let fit = self.capacity();
            notes.push(format!("maxPods is {max}, but only {fit} isolated pods fit into the pool"));
        }
        notes
    }
}

fn lane(
    kind: IdKind,
    spans: &[NamedSpan],
    block: BlockLength,
    excluded: &[HostSpan],
) -> Result<Vec<Run>, PoolError> {
    let mut sorted: Vec<&NamedSpan> = spans.iter().collect();
    sorted.sort_by_key(|s| s.ids);
    for pair in sorted.windows(2) {
        if let [a, b] = pair
            && let Some(both) = a.ids.intersection(b.ids)
        {
            return Err(PoolError::Twice { first: a.origin.clone(), second: b.origin.clone(), kind, both });
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for span in sorted {
        for run in allowed(whole_blocks(kind, span, block)?, block, excluded) {
            match runs.last_mut() {
                Some(before) if before.last + 1 == run.first => before.last = run.last,
                _ => runs.push(run),
            }
        }
    }
    if runs.is_empty() { Err(PoolError::Empty { kind, block }) } else { Ok(runs) }
}

fn whole_blocks(kind: IdKind, span: &NamedSpan, block: BlockLength) -> Result<Run, PoolError> {
    let (ids, origin, n) = (span.ids, span.origin.clone(), u64::from(block));
    if u64::from(ids.first()) < UNIT {
        return Err(PoolError::Host { origin, kind, ids });
    }
    if ids.length() < n {
        return Err(PoolError::NotWhole { origin, kind, ids, block });
    }
    if !u64::from(ids.first()).is_multiple_of(n) {
        return Err(PoolError::Unaligned { origin, kind, ids, block });
    }
    if !ids.length().is_multiple_of(n) {
        return Err(PoolError::NotWhole { origin, kind, ids, block });
    }
    // A span never contains 2^32-1, so that whole aligned blocks of it are all leasable.
    Ok(Run { first: ids.first() / block.get(), last: ids.last() / block.get() })
}

/// `run` without the blocks that touch an excluded ID.
fn allowed(run: Run, block: BlockLength, excluded: &[HostSpan]) -> Vec<Run> {
    let mut left = vec![run];
    for gap in excluded {
        let (gap_first, gap_last) = (gap.first() / block.get(), gap.last() / block.get());
        left = left
            .into_iter()
            .flat_map(|r| {
                if gap_last < r.first || r.last < gap_first {
                    return vec![r];
                }
                let below = (r.first < gap_first).then(|| Run { first: r.first, last: gap_first - 1 });
                let above = (gap_last < r.last).then(|| Run { first: gap_last + 1, last: r.last });
                below.into_iter().chain(above).collect()
            })
            .collect();
    }
    left
}

/// The block of `1 << order` units at `group`, counted in such groups from ID 0.
pub(crate) fn block_at(unit: BlockLength, order: u32, group: u32) -> Option<IdBlock> {
    let length = u64::from(unit.doubled(order)?);
    IdBlock::new(u64::from(group) * length, length).ok()
}

/// Reads `FIRST-LAST` as written in configuration.
pub fn parse_range(text: &str) -> Result<HostSpan, String> {
    let number = |s: &str| {
        s.trim().parse::<u64>().map_err(|_| format!("{text:?} is not FIRST-LAST, two decimal numbers"))
    };
    let (first, last) =
        text.split_once('-').ok_or_else(|| format!("{text:?} is not FIRST-LAST, such as 65536-131071"))?;
    let (first, last) = (number(first)?, number(last)?);
    let id = |n: u64| HostId::try_from(n).map_err(|e| e.to_string());
    HostSpan::between(id(first)?, id(last)?).ok_or_else(|| format!("{text:?} ends before it starts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(first: u64, n: u64) -> NamedSpan {
        NamedSpan { ids: HostSpan::new(first, n).unwrap(), origin: "/etc/subuid line 1".to_owned() }
    }

    fn request(uids: Vec<NamedSpan>, gids: Vec<NamedSpan>) -> PoolRequest {
        PoolRequest {
            block: BlockLength::DEFAULT,
            uids,
            gids,
            excluded: vec![],
            origin: PoolOrigin::Subids { owner: "kubelet".to_owned() },
        }
    }

    fn pool_of(first: u64, n: u64) -> Result<IdPool, PoolError> {
        IdPool::new(request(vec![named(first, n)], vec![named(first, n)]))
    }

    #[test]
    fn the_default_pool_has_65534_blocks_and_neither_the_first_nor_the_last() {
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        assert_eq!(pool.capacity(), 65_534);
        assert_eq!(pool.spans(IdKind::Uid), vec![HostSpan::new(65_536, 65_534 * 65_536).unwrap()]);
        assert!(pool.joint());
    }

    #[test]
    fn the_default_pool_exists_for_every_block_length() {
        for length in [65_536u64, 131_072, 196_608, 1 << 20, 2_147_418_112] {
            let pool = IdPool::default_for(BlockLength::try_from(length).unwrap(), vec![]).unwrap();
            assert!(pool.capacity() >= 1, "{length}");
            for kind in [IdKind::Uid, IdKind::Gid] {
                for s in pool.spans(kind) {
                    assert!(u64::from(s.first()) >= UNIT && s.end() <= u64::from(u32::MAX), "{length} {s}");
                }
            }
        }
    }

    #[test]
    fn a_range_on_host_ids_is_refused_with_the_fix() {
        let e = pool_of(0, 65_536 * 3).unwrap_err();
        assert_eq!(e.to_string(), "/etc/subuid line 1: uids 0-196607 overlap the host's own IDs 0-65535");
        assert_eq!(e.hint(), "start it at 65536 with 131072 IDs");
    }

    #[test]
    fn an_unaligned_range_is_refused_with_the_nearest_valid_one() {
        let e = pool_of(100_000, 655_360).unwrap_err();
        assert_eq!(e.hint(), "start it at 131072 with 589824 IDs (9 blocks)");
    }

    #[test]
    fn a_short_range_is_refused_with_the_fix() {
        let e = pool_of(131_072, 1000).unwrap_err();
        assert!(e.to_string().contains("too short for one block of 65536"), "{e}");
        assert_eq!(e.hint(), "give it at least 65536 IDs from a multiple of 65536, such as 131072");
        let e = pool_of(131_072, 100_000).unwrap_err();
        assert_eq!(e.hint(), "start it at 131072 with 65536 IDs (1 blocks)");
    }

    #[test]
    fn ranges_that_give_the_same_ids_are_refused() {
        let twice =
            request(vec![named(65_536, 131_072), named(131_072, 65_536)], vec![named(65_536, 65_536)]);
        assert!(matches!(IdPool::new(twice), Err(PoolError::Twice { .. })));
    }

    #[test]
    fn an_excluded_id_takes_its_whole_block_out() {
        let mut r = request(vec![named(65_536, 65_536 * 4)], vec![named(65_536, 65_536 * 4)]);
        r.excluded = vec![HostSpan::new(200_000, 1).unwrap()];
        let pool = IdPool::new(r).unwrap();
        assert_eq!(pool.capacity(), 3);
        assert!(!pool.holds(IdKind::Uid, IdBlock::new(196_608, 65_536).unwrap()));
        assert!(pool.holds(IdKind::Gid, IdBlock::new(262_144, 65_536).unwrap()));
    }

    #[test]
    fn lanes_of_different_size_are_said_to_be() {
        let pool =
            IdPool::new(request(vec![named(65_536, 65_536 * 4)], vec![named(65_536, 65_536 * 2)])).unwrap();
        assert!(!pool.joint());
        let notes = pool.notes(Some(110));
        assert!(notes[0].contains("hold 4 blocks and the group ID ranges 2: 2 leases fit"), "{notes:?}");
        assert!(notes[1].contains("maxPods is 110, but only 2"), "{notes:?}");
    }

    #[test]
    fn a_configured_range_is_read_inclusive() {
        assert_eq!(parse_range("65536-131071").unwrap(), HostSpan::new(65_536, 65_536).unwrap());
        assert!(parse_range("65536-4294967295").is_err());
        assert!(parse_range("65536").is_err());
        assert!(parse_range("9-3").is_err());
    }
}
