//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../fixture/mod.rs"]
mod fixture;

mod host_users;
mod kep_cases;
mod obstacles;
mod properties;
mod safe;
mod selinux_table;
mod volumes;
