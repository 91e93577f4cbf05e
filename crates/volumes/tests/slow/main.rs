//! Tests of this crate: what needs a component of others, or time.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    missing_docs
)]

#[path = "../kill/mod.rs"]
mod kill;
#[path = "../support/mod.rs"]
mod support;
#[path = "../trees/mod.rs"]
mod trees;

mod chown_kill;
mod setup_kill;
mod writer_kill;
