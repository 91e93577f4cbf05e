//! Tests of this crate: what needs root and a real kernel.
#![allow(clippy::panic, clippy::unwrap_used, missing_docs)]

mod attacks;
