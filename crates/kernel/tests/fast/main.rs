//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod dir;
mod dir_attacks;
mod recorder;
mod spawn_detached;
