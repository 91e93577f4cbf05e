//! Attacks on a node, its pods and its users through this program: each once worked, and must fail. Needs root.
//! docs/threat-model.md has the table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../run_support/mod.rs"]
#[allow(dead_code, reason = "what other tests need")]
mod run_support;
#[path = "../wards/mod.rs"]
mod wards;

mod covered_namespace;
mod descriptor_flood;
mod host_setuid;
mod left_pod;
mod log_size;
mod silent_filesystem;
mod terminal;
mod verify_tasks;
mod verify_unseen;
