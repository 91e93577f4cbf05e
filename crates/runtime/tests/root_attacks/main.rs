//! Attacks on the built-in runtime, one module for each finding. See docs/threat-model.md.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod verify_other_cgroup;
