//! Attacks on what the command line says and does, one module for each finding. See docs/threat-model.md.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../wards/mod.rs"]
mod wards;

mod covered_namespace;
mod descriptor_flood;
mod verify_unseen;
