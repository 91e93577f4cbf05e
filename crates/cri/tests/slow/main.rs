//! Tests of this crate: what needs a component of others, or time.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod containerd;
mod contract;
