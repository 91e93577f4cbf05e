//! Tests of this crate: what needs root and a real kernel.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;
#[path = "../trees/mod.rs"]
mod trees;

mod chown_once;
mod ownership;
mod shared;
mod subpath;
mod take_over;
mod teardown;
mod teardown_many;
mod volumes;
mod volumes_host_path;
mod volumes_presented;
mod writer;
