//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../foreign/mod.rs"]
mod foreign;
#[path = "../fuse/mod.rs"]
mod fuse;
#[path = "../run_support/mod.rs"]
mod run_support;
#[path = "../test_pods/mod.rs"]
mod test_pods;

mod attacks;
mod cli;
mod doctor;
mod draining;
mod explain;
mod image;
mod machine;
mod orphans;
mod run_beside;
mod run_end;
mod run_gates;
mod run_start;
mod run_volumes;
mod verify;
mod verify_many;
mod verify_watch;
