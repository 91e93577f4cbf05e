//! The agent's ports on a Kubernetes API server.
//!
//! | where | what |
//! |---|---|
//! | [`pods`] | the pods of this node as a [`PodSource`](agent::ports::PodSource) |
//! | [`status`] | the statuses of pods as a [`StatusSink`](agent::ports::StatusSink) |
//! | [`events`] | events as an [`EventSink`](agent::ports::EventSink) |
//! | [`objects`] | ConfigMaps and Secrets as an [`ObjectStore`](agent::ports::ObjectStore) |
//!
//! All of them take a `kube::Client` and run as tasks of the current tokio runtime. An API server that cannot be reached
//! stops none of them: they keep what they know and try again.

pub mod events;
mod follow;
pub mod objects;
pub mod pods;
mod raw;
mod retry;
pub mod status;
