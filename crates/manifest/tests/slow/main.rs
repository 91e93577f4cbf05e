//! Tests of this crate: what needs a component of others, or time.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod api_server;
mod oracle;
mod pod_security;
