//! Tests of this crate: what needs a component of others, or time.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod limits;
