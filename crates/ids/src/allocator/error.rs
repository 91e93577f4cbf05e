use std::fmt;

use super::{Counts, LeaseId, State};
use crate::block::{BlockLength, IdBlock};
use crate::id::IdKind;

/// What is missing for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The length asked for.
    pub asked: BlockLength,
    /// Where the pool stands.
    pub counts: Counts,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { leased, draining, quarantined, pinned, free, pool } = self.counts;
        write!(
            f,
            "no block of {} IDs is free: of {pool} blocks {leased} are leased, {draining} draining, \
             {quarantined} quarantined, {pinned} pinned",
            self.asked
        )?;
        if free > 0 {
            write!(f, "; the {free} free ones are in use by others on this host or too scattered")?;
        }
        Ok(())
    }
}

/// Why a lease was not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Nothing of that length is free now.
    #[error("{0}")]
    Exhausted(Shortage),
    /// Not even an empty pool has a block this long.
    #[error("{asked} IDs are more than one block of this pool can have; the longest is {largest}")]
    TooLarge {
        /// The length asked for.
        asked: BlockLength,
        /// The longest that could be.
        largest: BlockLength,
    },
    /// The length is not a power of two times the node's block length.
    #[error("a lease cannot have {asked} IDs; the nearest valid sizes are {}", nearest(*below, *above))]
    Size {
        /// The length asked for.
        asked: u64,
        /// The valid length below, or the shortest.
        below: u64,
        /// The valid length above, or the longest.
        above: u64,
    },
    /// As many leases as the operator allows are held.
    #[error("{leased} isolated pods are running and userNamespaces.maxPods allows {cap}")]
    OverCap {
        /// The operator's cap.
        cap: u32,
        /// How many are held.
        leased: u32,
    },
    /// The block that was picked turned out to be held.
    #[error(transparent)]
    Adoption(Adoption),
}

fn nearest(below: u64, above: u64) -> String {
    if below == above { below.to_string() } else { format!("{below} and {above}") }
}

/// Why blocks could not be entered as held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Adoption {
    /// They share IDs with another lease.
    #[error("{kind}s {block} overlap {theirs}, held by lease {}", with.0)]
    Overlapping {
        /// User or group IDs.
        kind: IdKind,
        /// The block to be entered.
        block: IdBlock,
        /// Whose block is in the way.
        with: LeaseId,
        /// The block that is in the way.
        theirs: IdBlock,
    },
    /// The lease is entered already.
    #[error("lease {} is known already", .0.0)]
    Known(LeaseId),
}

/// Why a lease cannot go where it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Transition {
    /// There is no such lease.
    #[error("there is no lease {}", .0.0)]
    Unknown(LeaseId),
    /// The one state does not follow the other.
    #[error("lease {} cannot go from {from:?} to {to:?}", id.0)]
    NotOnTheWay {
        /// The lease.
        id: LeaseId,
        /// Its path.
        from: State,
        /// Where it was sent.
        to: State,
    },
    /// Free is only what was seen to be vacant and has rested.
    #[error("lease {} is {from:?}: it was not seen to be vacant", id.0)]
    NotVacant {
        /// The lease.
        id: LeaseId,
        /// Its path.
        from: State,
    },
    /// It has not rested long enough.
    #[error("lease {} rests until {until}, and it is {now}", id.0)]
    StillResting {
        /// The lease.
        id: LeaseId,
        /// The end of its rest, in seconds since 1970.
        until: u64,
        /// The time, in seconds since 1970.
        now: u64,
    },
}
