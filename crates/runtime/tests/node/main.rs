//! Tests of this crate: what needs a whole node to itself.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs, unreachable_pub)]

mod kubelet;
