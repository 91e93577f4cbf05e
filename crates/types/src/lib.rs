//! The words that several crates share, each defined once.
//!
//! - [`masked_paths`], [`READ_ONLY_PATHS`]: paths of `/proc` and `/sys` that a container sees empty, or cannot write.
//!
//! The crate is pure and stands below all others: it reads no file, no clock and no environment. A type that only
//! one crate uses belongs into that crate.

mod paths;

pub use paths::{READ_ONLY_PATHS, masked_paths};
