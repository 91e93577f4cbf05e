//! This node at the API server of a cluster: what a kubelet reports and reads there.
//!
//! - [`client`]: from a kubeconfig to clients, each request with a deadline, each error with a hint.
//! - [`node`]: the Node object: computed from settings and facts, registered, and kept up to date.
//! - [`lease`]: the heartbeat: the lease of this node, renewed every ten seconds.
//!
//! An unreachable API server is no error at start: each task retries until the server answers.

mod backoff;
pub mod client;
pub mod lease;
pub mod node;
mod problem;

pub use problem::Problem;
