//! Tests of this crate: what needs root and a real kernel.
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

mod attacks;
mod pod;
