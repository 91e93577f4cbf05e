//! Kubernetes' rules, one by one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, unreachable_pub)]

mod endings;
mod probing;
mod restarts;
mod sandboxes;
mod stage;
mod starting;
mod statuses;
