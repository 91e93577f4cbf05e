//! Tests of this crate: what needs a component of others, or time.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../crash/mod.rs"]
mod crash;
#[path = "../damaged/mod.rs"]
mod damaged;
#[path = "../power/mod.rs"]
mod power;

mod damage;
mod kill;
mod power_loss;
mod processes;
