//! Tests of this crate: what needs neither root nor a component.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

mod adoption;
mod detached;
mod life;
mod packets;
mod streams;
