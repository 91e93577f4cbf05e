use std::path::PathBuf;

use ids::allocator::{LeaseId, State};
use ids::{BlockLength, IdBlock, UserNamespace};
use selinux::CategoryPair;
use serde::{Deserialize, Serialize};

use crate::holder::Holder;

/// How long a lease lasts if it is not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tenure {
    /// Until it is released, also over reboots.
    #[default]
    Durable,
    /// Until the next boot at the latest: for sandboxes, which no boot survives.
    UntilReboot,
}

/// Whether a lease includes a pair of SELinux categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Categories {
    /// No categories.
    #[default]
    None,
    /// A pair that no other lease on this node has.
    Pair,
}

/// A request for a lease, for [`Ledger::lease`](crate::Ledger::lease) and [`Ledger::join`](crate::Ledger::join).
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The holder of the lease.
    pub holder: Holder,
    /// The number of IDs; the node's block length if `None`.
    pub length: Option<BlockLength>,
    /// How long the lease lasts.
    pub tenure: Tenure,
    /// Files and directories that will be owned by these IDs. While one exists, the block is not
    /// free.
    pub places: Vec<PathBuf>,
    /// Whether to allocate SELinux categories, too.
    pub categories: Categories,
}

impl LeaseRequest {
    /// A request for one block of the node's length, durable, without paths and categories.
    #[must_use]
    pub fn new(holder: Holder) -> Self {
        Self {
            holder,
            length: None,
            tenure: Tenure::default(),
            places: Vec::new(),
            categories: Categories::default(),
        }
    }
}

/// A lease as recorded in the ledger: its blocks, its holder and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number, never used twice.
    pub id: LeaseId,
    /// The holder; for a shared lease its name. `None` for a pinned block whose holder is unknown.
    pub holder: Option<Holder>,
    /// Leased, draining, quarantined or pinned.
    pub state: State,
    /// Its user IDs.
    pub uids: IdBlock,
    /// Its group IDs.
    pub gids: IdBlock,
    /// The holders that have joined it; `None` for a lease that is not shared.
    pub members: Option<Vec<Holder>>,
    /// How long it lasts if it is not released.
    pub tenure: Tenure,
    /// When it entered its state, in seconds since 1970.
    pub since: u64,
    /// Whether it was granted, or last confirmed, before this boot.
    pub earlier_boot: bool,
    /// Files and directories that its IDs own.
    pub places: Vec<PathBuf>,
    /// Its SELinux categories, if it has any.
    pub categories: Option<CategoryPair>,
    /// Why it is pinned or outside the pool, and what to do about it.
    pub note: Option<String>,
}

impl Lease {
    /// The user namespace of its holder.
    #[must_use]
    pub fn user_namespace(&self) -> UserNamespace {
        UserNamespace::Leased { uids: self.uids, gids: self.gids }
    }

    /// The name of its state in messages and in JSON.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Leased => "leased",
            State::Draining => "draining",
            State::Quarantined { .. } => "quarantined",
            State::Pinned => "pinned",
        }
    }
}
