//! The pods that the API server has bound to this node.

mod pod;
mod set;
mod source;
mod store;

pub use pod::{ApiPod, Definition, Deletion};
pub(crate) use pod::{MIRROR, is_mirror, is_terminal};
pub use set::{PodSet, PodsView};
pub use source::PodWatch;
