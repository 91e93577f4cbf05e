//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod foreign_names;
mod node;
mod plugins;
mod registry;
mod resources;
