//! Tests of this crate against a real etcd and API server, with the credentials of a node.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod cluster;
mod events;
mod objects;
mod pods;
mod status;
