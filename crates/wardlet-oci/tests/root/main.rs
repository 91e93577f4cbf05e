//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../asking/mod.rs"]
mod asking;
#[path = "../isolation/mod.rs"]
mod isolation;
#[path = "../wrapped/mod.rs"]
mod wrapped;

mod attacks;
mod isolation_layers;
mod isolation_runc;
mod leases;
mod policy;
mod pool;
