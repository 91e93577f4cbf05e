//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod corpus;
mod gates;
mod lowering;
mod migration;
mod properties;
mod reading;
mod standards;
