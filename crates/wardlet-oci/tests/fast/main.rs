//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../../../../fuzz/src/edits.rs"]
mod edits;
#[path = "../../../../fuzz/src/power.rs"]
mod power;
#[path = "../wrapped/mod.rs"]
mod wrapped;

mod handing_over;
mod hostile;
mod never_weaker;
mod spoilt_edits;
