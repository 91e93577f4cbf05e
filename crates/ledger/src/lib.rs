//! The durable record of which holder has which host IDs on this node.
//!
//! - [`Ledger`]: lease, join, release, adopt, settle. Durable before it returns; many processes and
//!   many threads at once; no daemon.
//! - [`LeaseRequest`], [`Lease`], [`Holder`]: what is asked for and what is given.
//! - [`Released`], [`Verdict`]: what a release came to, and why a block is or is not free yet.
//! - [`PairUser`], [`HeldPair`]: SELinux category pairs of sandboxes and containers that have no block.
//! - [`kubelet`]: a kubelet's records. [`Imported`] and [`Exported`]: a node that is taken over and given back.
//!
//! Inside, from the outside in: `commit_queue` is the group commit; `store` keeps the
//! files and the `lease_table` in step; `lease_table`, `shared`, `settle` and `pairs` change leases in memory; `db`,
//! `mirror` and `mark` write them; `rebuild` writes them anew when they are damaged.

mod allocate;
mod clock;
mod commit_queue;
mod db;
mod error;
mod files;
mod holder;
pub mod kubelet;
mod lease;
mod lease_table;
mod ledger;
mod mark;
mod mirror;
mod pair;
mod pair_counts;
mod pairs;
mod paths;
mod rebuild;
mod row;
mod settle;
mod shared;
mod store;
mod takeover;
mod view;

pub use clock::{BootId, Clock, SystemClock};
pub use error::LedgerError;
pub use holder::{BadHolder, Holder};
pub use lease::{Categories, Lease, LeaseRequest, Tenure};
pub use ledger::{Ledger, Options};
pub use pair::{HeldPair, PairConflict, PairInUse, PairOrigin, PairUser, PairVerdict};
pub use paths::OpenMode;
pub use settle::{Outcome, Verdict};
pub use shared::Released;
pub use takeover::{Exported, Imported, Rehearsed, rehearse_import};
