//! Static pods: pods of this node's own files, which the API shows by mirror pods.

pub(crate) mod mirror;
mod source;

pub use mirror::{MirrorTarget, Mirrors};
pub use source::StaticPods;
