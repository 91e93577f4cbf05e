//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod cgroup;
mod kube;
mod scope;
