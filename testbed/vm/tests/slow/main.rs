//! Tests of this crate: what needs a component of others, or time.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

#[path = "../rebooting/mod.rs"]
mod rebooting;

mod agent_guest;
mod guests;
mod reboot;
mod shutdown;
mod systemd;
