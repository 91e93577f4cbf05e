//! Tests of this crate: what needs a whole node to itself.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../slow/guests/suite.rs"]
mod suite;

#[path = "../slow/agent_guest.rs"]
mod agent_guest;

#[path = "../rebooting/mod.rs"]
mod rebooting;

mod cgroupfs;
mod guests;
mod module;
mod reboot;
