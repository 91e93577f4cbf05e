//! Attacks on the network of pods and of their host: each is carried out as a tenant would, and must fail.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_imports,
    missing_docs
)]

mod host_ports;
#[path = "../support/mod.rs"]
mod support;
