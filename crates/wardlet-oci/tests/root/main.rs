//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../asking/mod.rs"]
mod asking;
#[path = "../ward/mod.rs"]
mod ward;
#[path = "../wrapped/mod.rs"]
mod wrapped;

mod attacks;
mod leases;
mod policy;
mod pool;
mod ward_layers;
mod ward_runc;
