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

mod attacks;
mod cluster;
mod cni;
mod leases;
mod pods;
mod ports;
mod spoof;
