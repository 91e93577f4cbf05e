//! Attacks on a node through this program: each is carried out as a tenant would, and must fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod left_pod;
mod log_size;
mod terminal;
