//! This node at the API server of a cluster: what a kubelet reports and reads there.
//!
//! | where | what |
//! |---|---|
//! | [`client`] | from a kubeconfig to clients, each request with a deadline, each error with a hint |
//! | [`identity`] | this node's certificates: bootstrap, rotation, and clients that follow them |
//! | [`node`] | the Node object: computed from settings and facts, registered, and kept up to date |
//! | [`lease`] | the heartbeat: the lease of this node, renewed every ten seconds |
//! | [`pods`] | the pods of this node as a [`PodSource`](agent::ports::PodSource) |
//! | [`status`] | the statuses of pods as a [`StatusSink`](agent::ports::StatusSink) |
//! | [`events`] | events as an [`EventSink`](agent::ports::EventSink) |
//! | [`node_admission`] | how pods are run on this node, or why they cannot be now |
//! | [`node_agent`] | all of it in one: this machine as a node |
//! | `page` | the page of this node, as a [`Page`](kubelet_api::Page) of the kubelet's API |
//! | [`static_pods`] | pods of this node's own files as a [`PodSource`](agent::ports::PodSource), and their mirror pods |
//! | [`reconcile`] | the pods that are bound to this node, run by the agent |
//! | [`objects`] | ConfigMaps, Secrets, tokens, certificates, trust bundles and services as an [`ObjectStore`](agent::ports::ObjectStore) |
//!
//! An API server that cannot be reached is no error, at the start or later: each task keeps what it knows and tries again.

mod backoff;
mod cgroups;
pub mod client;
mod defaults;
pub mod events;
mod follow;
pub mod identity;
mod images;
mod kernel_settings;
pub mod lease;
mod limits;
pub mod node;
pub mod node_admission;
pub mod node_agent;
pub mod objects;
mod page;
mod pod_certificates;
pub mod pods;
mod problem;
mod raw;
pub mod reconcile;
pub mod runtime_classes;
mod served;
mod service;
mod services;
pub mod static_pods;
pub mod status;
mod streams;
mod tokens;
mod trust_bundles;
mod usage;

pub use limits::SwapError;
pub use problem::Problem;
pub use service::ServiceError;
