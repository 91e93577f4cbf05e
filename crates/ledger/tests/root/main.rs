//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../crash/mod.rs"]
mod crash;

mod attacks;
