//! A node at a real API server with the Node authorizer and NodeRestriction.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod errors;
mod lease;
mod node;
mod outage;
mod support;
