//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../cases/mod.rs"]
mod cases;
#[path = "../model/mod.rs"]
mod model;

mod events;
mod histories;
mod kep;
mod meeting;
