//! The API of a kubelet on port 10250, which the API server, `kubectl logs` and metrics collectors use, and the healthz port.
//!
//! | where | what |
//! |---|---|
//! | [`serve`] | both ports, from the kubelet's configuration |
//! | [`SyncLoop`] | whether the loop that drives all pods turns: what `/healthz` answers |
//! | [`Pods`] | the pods to serve: a port that the caller implements |
//! | `tls` | the serving certificate, and clients' certificates without a decision on them |
//! | `auth` | authentication and authorization; the API server decides, answers are kept for the configured times |
//! | `http` | connections, limits, and what each path answers |
//! | [`Streams`] | exec, attach and port-forward at the runtime: a port that the caller implements |
//! | `streams` | their parameters, and the tunnel between client and runtime |
//! | [`Usage`] | what the node and its pods use: a port that the caller implements |
//! | [`Page`] | the page of this node: a port that the caller implements; [`ServedPage`] says where it is served |
//! | `usage` | that as `/metrics/resource` and `/stats/summary` |
//! | `logs` | parameters of `/containerLogs`, the instance that they mean, and its log as a stream |
//!
//! Every path of port 10250 needs authentication and authorization, also one that does not exist. If the API server cannot
//! be asked, the request is refused. Without both are served, to processes of the node alone: the healthz port, and the page on
//! a loopback address.

mod auth;
mod error;
mod health;
mod http;
mod logs;
mod page;
mod pods;
mod serve;
mod streams;
mod tls;
mod usage;

pub use error::ServeError;
pub use health::SyncLoop;
pub use page::{Document, Page};
pub use pods::{Pods, ServedContainer, ServedPod};
pub use serve::{Options, ServedPage, Server, serve, serve_health};
pub use streams::{Call, RunOutput, Session, StreamError, Streams, Wanted};
pub use usage::{
    ContainerUsage, Detail, Filesystem, Interface, NodeUsage, PartUsage, PodUsage, Reading, Usage, Used,
};
