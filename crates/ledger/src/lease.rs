use std::path::PathBuf;

use ids::allocator::{LeaseId, State};
use ids::{BlockLength, IdBlock, UserNamespace};
use labels::CategoryPair;
use serde::{Deserialize, Serialize};

use crate::holder::Holder;

/// How long a lease is meant to last if nobody releases it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tenure {
    /// Until it is released, over reboots too.
    #[default]
    Durable,
    /// Until the next boot at the latest: for sandboxes, which no boot survives.
    UntilReboot,
}

/// Whether a lease comes with a pair of SELinux categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Categories {
    /// It does not.
    #[default]
    None,
    /// It does, one that no other lease on this node has.
    Pair,
}

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Who asks.
    pub holder: Holder,
    /// How many IDs; the node's block length if not said.
    pub length: Option<BlockLength>,
    /// For how long.
    pub tenure: Tenure,
    /// Files and directories that will be owned by these IDs. While one exists, the block is not
    /// free.
    pub places: Vec<PathBuf>,
    /// With SELinux categories or without.
    pub categories: Categories,
}

impl LeaseRequest {
    /// One block of the node's length.
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

/// A block and who has it, as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number, never used twice.
    pub id: LeaseId,
    /// Who has it; for a shared lease its name. A pinned block may have nobody.
    pub holder: Option<Holder>,
    /// Where it stands.
    pub state: State,
    /// Its user IDs.
    pub uids: IdBlock,
    /// Its group IDs.
    pub gids: IdBlock,
    /// Those who have joined it; `None` for a lease that is not shared.
    pub members: Option<Vec<Holder>>,
    /// How long it is meant to last.
    pub tenure: Tenure,
    /// Since when it stands where it stands, in seconds since 1970.
    pub since: u64,
    /// Whether it was given, or last confirmed, before this boot.
    pub earlier_boot: bool,
    /// What of it lies on disk.
    pub places: Vec<PathBuf>,
    /// Its SELinux categories.
    pub categories: Option<CategoryPair>,
    /// Why it is pinned, or what else is odd about it, and what to do.
    pub note: Option<String>,
}

impl Lease {
    /// The user namespace of its holder.
    #[must_use]
    pub fn user_namespace(&self) -> UserNamespace {
        UserNamespace::Leased { uids: self.uids, gids: self.gids }
    }

    /// The word for its state.
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
