//! The kubelet's API over real TLS connections, without an API server: authentication is off, or there is none to ask.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod costs;
mod logs;
mod page;
mod paths;
mod sessions;
