//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod bridge;
mod client;
mod urls;
mod websocket;
