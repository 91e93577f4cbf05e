//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::expect_used)]

#[path = "../traces/mod.rs"]
mod traces;

mod crash;
mod faults;
mod registry;
mod up;
