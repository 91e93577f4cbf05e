//! Events of pods and of the node in the API.
//!
//! `correlate` merges repeated events and limits those of one pod; it is pure. The sink queues and sends them.

mod correlate;
mod document;
mod recent;
mod record;
mod sink;

pub(crate) use record::NodeEvent;
pub use sink::{ApiEvents, EventLimits};
