//! Tests of this crate: what needs neither root nor a component.
#![allow(clippy::unwrap_used, missing_docs)]

mod properties;
