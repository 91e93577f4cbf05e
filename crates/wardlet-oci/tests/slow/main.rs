//! Tests of this crate: what needs a component of others, or time.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../asking/mod.rs"]
mod asking;
#[path = "../isolation/mod.rs"]
mod isolation;
#[path = "../support/mod.rs"]
mod support;
#[path = "../wrapped/mod.rs"]
mod wrapped;

mod containerd;
mod crun;
mod engines;
mod gvisor;
mod isolation_kill;
mod isolation_runc;
mod nodes;
mod parallel;
