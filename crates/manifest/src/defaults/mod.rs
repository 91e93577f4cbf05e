//! What holds where a pod says nothing, and what a node adds to a pod from a file of its own.

mod api;
mod static_pod;

pub use api::defaulted;
pub use static_pod::{StaticSource, static_pod};
