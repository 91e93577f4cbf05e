//! Events of pods in the API.
//!
//! `correlate` merges repeated events and limits those of one pod; it is pure. The sink queues and sends them.

mod bucket;
mod correlate;
mod document;
mod recent;
mod sink;

pub use sink::ApiEvents;
