//! Which host IDs belong to whom: the one place on a node that knows, and that never forgets.
//!
//! - [`Ledger`]: lease, join, release, adopt, settle. Durable before it returns; many processes and
//!   many threads at once; no daemon.
//! - [`LeaseRequest`], [`Lease`], [`Holder`]: what is asked for and what is given.
//! - [`Released`], [`Verdict`]: what a release came to, and why a block is or is not free yet.
//! - [`kubelet`]: a kubelet's records, taken over and given back.
//!
//! Inside, from the outside in: `line` lets callers share a commit; `store` keeps the
//! files and the `book` in step; `book`, `shared` and `settle` change leases in memory; `db`, `mirror`
//! and `mark` write them; `rebuild` writes them anew when they are damaged.

mod book;
mod clock;
mod db;
mod error;
mod files;
mod holder;
pub mod kubelet;
mod lease;
mod ledger;
mod line;
mod mark;
mod mirror;
mod rebuild;
mod row;
mod settle;
mod shared;
mod store;
mod view;

pub use clock::{BootId, Clock, SystemClock};
pub use db::Stay;
pub use error::LedgerError;
pub use holder::{BadHolder, Holder};
pub use lease::{Categories, Lease, LeaseRequest, Tenure};
pub use ledger::{Ledger, Options, SIGHTING_AGE, Told};
pub use settle::{Outcome, Verdict};
pub use shared::Released;
