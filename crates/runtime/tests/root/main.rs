//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod events;
mod limits;
mod network;
mod pods;
mod selinux;
mod servers;
mod spaces;
mod stats;
mod streams;
