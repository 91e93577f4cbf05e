//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod exec;
mod exposed;
mod failures;
mod features;
mod label;
mod limits;
mod run;
mod same;
