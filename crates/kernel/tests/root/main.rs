//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod attributes;
mod context;
mod device_filter;
mod filesystems;
mod init;
mod join;
mod limits;
mod make;
mod mount;
mod namespace;
mod network;
mod overlay;
mod pins;
mod probe;
mod relabel;
mod remove;
mod share;
mod userns;
mod userns_process;
