//! Attacks on the wrapper, each of which once worked. Needs root.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../asking/mod.rs"]
mod asking;
#[path = "../ward/mod.rs"]
mod ward;
#[path = "../wrapped/mod.rs"]
mod wrapped;

mod another_pods_block;
mod crio;
mod many_ids;
