//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod chown;
mod devices;
mod images;
mod prepare_rootfs;
mod runc;
mod travel;
mod user;
mod volumes;
