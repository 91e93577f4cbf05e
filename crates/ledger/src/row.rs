//! What is written down for a lease, for a member of a shared one and for a category pair without a block.
//!
//! Every change gives a row a new sequence number, so that another process catches up by reading the
//! rows above the last number it knows.

use ids::allocator::{Blocks, LeaseId, State};
use ids::{BlockError, IdBlock};
use selinux::CategoryPair;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::clock::BootId;
use crate::holder::Holder;
use crate::lease::Tenure;
use crate::pair::PairOrigin;

/// Where a written block stands: as in the allocator, or free with its age remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Standing {
    Held(State),
    Free,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseRow {
    pub(crate) seq: u64,
    pub(crate) id: LeaseId,
    pub(crate) uids: IdBlock,
    pub(crate) gids: IdBlock,
    pub(crate) standing: Standing,
    pub(crate) holder: Option<Holder>,
    pub(crate) shared: bool,
    pub(crate) tenure: Tenure,
    pub(crate) since: u64,
    pub(crate) boot: BootId,
    pub(crate) categories: Option<CategoryPair>,
    pub(crate) places: Vec<String>,
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRow {
    pub(crate) seq: u64,
    pub(crate) lease: LeaseId,
    pub(crate) holder: Holder,
    /// False once it has left; the row goes when the shared lease is free.
    pub(crate) joined: bool,
    pub(crate) tenure: Tenure,
    pub(crate) since: u64,
    pub(crate) boot: BootId,
}

/// A category pair that belongs to a sandbox or container without a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PairRow {
    pub(crate) seq: u64,
    pub(crate) holder: Holder,
    pub(crate) pair: CategoryPair,
    pub(crate) origin: PairOrigin,
    pub(crate) standing: PairStanding,
    /// The directory of the sandbox or container: while it exists, the pair is not free.
    pub(crate) place: String,
    pub(crate) since: u64,
    pub(crate) boot: BootId,
}

/// Where a pair without a block stands. A row of a free one tells other processes that it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PairStanding {
    Held,
    /// Given back, but its place still exists.
    Released,
    Free,
}

impl LeaseRow {
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks { uids: self.uids, gids: self.gids }
    }

    pub(crate) fn state(&self) -> Option<State> {
        match self.standing {
            Standing::Held(state) => Some(state),
            Standing::Free => None,
        }
    }

    /// The numbers that stand for the standing on disk.
    pub(crate) fn standing_code(&self) -> (u8, u64) {
        match self.standing {
            Standing::Held(State::Leased) => (1, 0),
            Standing::Held(State::Draining) => (2, 0),
            Standing::Held(State::Quarantined { until }) => (3, until),
            Standing::Held(State::Pinned) => (4, 0),
            Standing::Free => (5, 0),
        }
    }

    /// A fingerprint of all that is written. The ledger's head keeps the sum over all rows, so that a
    /// changed, lost or invented row shows.
    pub(crate) fn digest(&self) -> u64 {
        let (code, until) = self.standing_code();
        let mut d = Digest::new(b'l');
        d.number(self.seq).number(self.id.0);
        d.number(self.uids.base().into()).number(self.gids.base().into()).number(self.uids.length().into());
        d.number(code.into()).number(until);
        d.text(self.holder.as_ref().map(Holder::as_str));
        d.number(self.shared.into()).number(tenure_code(self.tenure).into()).number(self.since);
        d.text(Some(&self.boot.0));
        d.number(self.categories.map_or(u64::MAX, |c| pair_code(c).into()));
        for place in &self.places {
            d.text(Some(place));
        }
        d.text(self.reason.as_deref());
        d.finish()
    }
}

impl MemberRow {
    pub(crate) fn digest(&self) -> u64 {
        let mut d = Digest::new(b'm');
        d.number(self.seq).number(self.lease.0).text(Some(self.holder.as_str()));
        d.number(self.joined.into()).number(tenure_code(self.tenure).into()).number(self.since);
        d.text(Some(&self.boot.0));
        d.finish()
    }
}

impl PairRow {
    pub(crate) fn is_free(&self) -> bool {
        self.standing == PairStanding::Free
    }

    pub(crate) fn digest(&self) -> u64 {
        let mut d = Digest::new(b'p');
        d.number(self.seq).text(Some(self.holder.as_str())).number(pair_code(self.pair).into());
        d.number(origin_code(self.origin).into()).number(pair_standing_code(self.standing).into());
        d.text(Some(&self.place)).number(self.since).text(Some(&self.boot.0));
        d.finish()
    }
}

/// The standing that the numbers on disk stand for.
pub(crate) fn standing(code: u8, until: u64) -> Option<Standing> {
    Some(match code {
        1 => Standing::Held(State::Leased),
        2 => Standing::Held(State::Draining),
        3 => Standing::Held(State::Quarantined { until }),
        4 => Standing::Held(State::Pinned),
        5 => Standing::Free,
        _ => return None,
    })
}

pub(crate) fn tenure_code(tenure: Tenure) -> u8 {
    match tenure {
        Tenure::Durable => 1,
        Tenure::UntilReboot => 2,
    }
}

pub(crate) fn tenure(code: u8) -> Option<Tenure> {
    match code {
        1 => Some(Tenure::Durable),
        2 => Some(Tenure::UntilReboot),
        _ => None,
    }
}

pub(crate) fn origin_code(origin: PairOrigin) -> u8 {
    match origin {
        PairOrigin::Allocated => 1,
        PairOrigin::Named => 2,
    }
}

pub(crate) fn origin(code: u8) -> Option<PairOrigin> {
    match code {
        1 => Some(PairOrigin::Allocated),
        2 => Some(PairOrigin::Named),
        _ => None,
    }
}

pub(crate) fn pair_standing_code(standing: PairStanding) -> u8 {
    match standing {
        PairStanding::Held => 1,
        PairStanding::Released => 2,
        PairStanding::Free => 3,
    }
}

pub(crate) fn pair_standing(code: u8) -> Option<PairStanding> {
    match code {
        1 => Some(PairStanding::Held),
        2 => Some(PairStanding::Released),
        3 => Some(PairStanding::Free),
        _ => None,
    }
}

pub(crate) fn pair_code(pair: CategoryPair) -> u32 {
    pair.low() * 1024 + pair.high()
}

pub(crate) fn pair(code: u32) -> Option<CategoryPair> {
    CategoryPair::new(code / 1024, code % 1024).ok()
}

pub(crate) fn blocks(uid: u32, gid: u32, length: u32) -> Result<(IdBlock, IdBlock), BlockError> {
    Ok((IdBlock::new(uid.into(), length.into())?, IdBlock::new(gid.into(), length.into())?))
}

/// Fields in a fixed order, each with its length where it has one: no two rows look alike.
struct Digest(Xxh3);

impl Digest {
    fn new(kind: u8) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&[kind]);
        Self(hash)
    }

    fn number(&mut self, n: u64) -> &mut Self {
        self.0.update(&n.to_le_bytes());
        self
    }

    fn text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            None => self.number(u64::MAX),
            Some(text) => {
                self.number(text.len().try_into().unwrap_or(u64::MAX - 1));
                self.0.update(text.as_bytes());
                self
            }
        }
    }

    fn finish(&self) -> u64 {
        self.0.digest()
    }
}
