//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::unwrap_used)]

mod census;
