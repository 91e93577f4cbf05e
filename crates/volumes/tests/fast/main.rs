//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[path = "../trees/mod.rs"]
mod trees;

mod payload;
mod writer;
