//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../crash/mod.rs"]
mod crash;
#[path = "../damaged/mod.rs"]
mod damaged;

mod damage;
mod exclusive;
mod fixtures;
mod leases;
mod model;
mod pairs;
mod stale_copy;
mod take_over;
