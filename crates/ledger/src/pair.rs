//! Category pairs that come without a block, as callers see them.

use std::path::PathBuf;

use selinux::CategoryPair;
use serde::{Deserialize, Serialize};

use crate::holder::Holder;

/// How a holder came to have a pair without a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PairOrigin {
    /// The ledger chose it: no other holder has it, and none is given it.
    Allocated,
    /// The holder's manifest names it. Several holders can name one pair.
    Named,
}

/// A sandbox or container that has or wants a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairUser {
    /// Its ID.
    pub holder: Holder,
    /// Its directory, an absolute path: while it exists, the pair is not free.
    pub place: PathBuf,
}

/// A pair that a sandbox or container is known to run with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairInUse {
    /// The sandbox or container.
    pub user: PairUser,
    /// Its pair.
    pub pair: CategoryPair,
    /// Where the pair came from.
    pub origin: PairOrigin,
}

/// A pair without a block that is not free, as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPair {
    /// The ID of the sandbox or container.
    pub holder: Holder,
    /// Its pair.
    pub pair: CategoryPair,
    /// Where the pair came from.
    pub origin: PairOrigin,
    /// Whether it was given back and waits until its place is gone.
    pub released: bool,
    /// The directory of the sandbox or container.
    pub place: PathBuf,
    /// Since when it stands where it stands, in seconds since 1970.
    pub since: u64,
    /// Whether it was given, or last confirmed, before this boot.
    pub earlier_boot: bool,
}

/// Two holders of one pair, of which at least one was to have it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairConflict {
    /// The pair.
    pub pair: CategoryPair,
    /// The sandbox or container that was to have it alone.
    pub holder: Holder,
    /// The other sandbox or container, or the holder of the lease that has the same pair; a pinned lease may have none.
    pub other: Option<Holder>,
}

/// What `settle_pairs` came to for one pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairVerdict {
    /// The pair as it was before.
    pub held: HeldPair,
    /// Whether it is free now; if not, its place still exists.
    pub freed: bool,
}
