//! The statuses of pods in the API.
//!
//! `convert` makes the API's status of the agent's, `merge` the patch for what differs in the API; both are pure. The
//! writer sends it. `live` reads the status that another agent of the node has left in the API.

mod containers;
mod convert;
mod devices;
mod ended_by_node;
mod live;
mod merge;
pub(crate) mod resources;
mod sink;
mod writer;

pub(crate) use containers::cut;
pub use convert::{CleanUp, StatusNode, pod_status};
pub use ended_by_node::EndedByNode;
pub(crate) use live::status_in_api;
pub use merge::patch;
pub use sink::{ApiStatuses, StatusOptions};

#[cfg(test)]
mod tests;
