//! Attacks on the start of a container: each test is an attack that has worked, and fails now. Needs root, busybox,
//! runc and strace. docs/threat-model.md has the table.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod descriptors;
mod devices;
mod libraries;
mod rootfs_paths;
mod starter;
mod variants;
