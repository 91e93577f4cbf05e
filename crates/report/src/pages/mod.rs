//! What the pages show, as plain data.
//!
//! A page is a function of one of these types: [`html::cluster::render`](crate::html::cluster::render) of a [`ClusterPage`],
//! [`html::node::render`](crate::html::node::render) of a [`NodePage`]. The server of a page fills the type from what it knows,
//! serves the page and the same data as JSON, and nothing here reads a file, a clock or a network.
//!
//! | type | of | filled by |
//! |---|---|---|
//! | [`ClusterPage`] | a cluster: readiness, conflicts, trend | the controller |
//! | [`NodePage`] | a node: host IDs, pods with plans and mounts, the last proof | the agent |
//! | [`Document`] | an answer to a request below the page's address | `html::cluster::document`, `html::node::document` |
//!
//! Workloads, volumes, conflicts and fixes are those of `check`: what its report and the page of a cluster say of them is
//! written by the same functions. All times are seconds since 1970, in UTC.

mod cluster;
mod document;
mod id_space;
mod node;
mod proof;
mod scope;

pub use cluster::{
    ClusterPage, DriverReadiness, LeftOut, NodeCause, NodeReadiness, SelinuxReadiness, TrendPoint, Watch,
};
pub use document::Document;
pub use id_space::{BlockCounts, BlockState, IdRow, IdSpace, IdUse, uses_of_others};
pub use node::{Container, NodeMount, NodePage, NodePod, StartStep, StartTimes, WaitingPod};
pub use proof::{LastProof, Proof, ProofEvidence, ProofViolation, ProvenPod};
pub use scope::Scope;
