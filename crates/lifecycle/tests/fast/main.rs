//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../model/mod.rs"]
mod model;
#[path = "../script/mod.rs"]
mod script;
#[path = "../world/mod.rs"]
mod world;

mod histories;
mod invariants;
mod rules;
