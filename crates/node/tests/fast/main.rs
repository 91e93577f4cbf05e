//! Tests of this crate that need nothing but Rust.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod kubelet_drop_ins;
mod kubelet_errors;
mod kubelet_file;
mod kubelet_flags;
mod kubelet_page;
mod kubelet_table;
mod support;
