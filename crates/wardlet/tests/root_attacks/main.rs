//! Attacks on pods of this node, each of which once worked. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../run_support/mod.rs"]
#[allow(dead_code, reason = "what other tests need")]
mod run_support;
#[path = "../wards/mod.rs"]
mod wards;

mod host_setuid;
