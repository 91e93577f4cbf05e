//! CRI v1, the contract between a node agent and a container runtime, as far as it is used here.
//!
//! - at the root: its messages and services, from `proto/`: the public names and numbers, our own words.
//! - [`client`]: asking a runtime over its socket, or over any stream of bytes (feature `client`).
//! - [`within`]: the result of a call before a deadline, or a [`CallError`] (feature `client`).
//! - [`server`]: being a runtime, on a socket or over any stream of bytes (feature `server`).
//! - [`Endpoint`]: where a runtime listens.
//! - [`Error`]: why there is no conversation; what the runtime itself refuses is a [`tonic::Status`].

#[cfg(feature = "client")]
mod call;
#[cfg(feature = "client")]
pub mod client;
mod endpoint;
mod error;
mod redacted;
#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "client")]
pub use call::{CallError, within};
pub use endpoint::Endpoint;
pub use error::{Error, Result};
pub use tonic::{Code, Request, Response, Status};
#[allow(clippy::wildcard_imports, reason = "every message of the protocol")]
pub use v1::*;

// Messages and services of `runtime.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    reason = "generated; what there is to say about a field is said in proto/"
)]
mod v1 {
    tonic::include_proto!("runtime.v1");
}

/// The longest message either side takes: a list of all containers of a full node passes tonic's own 4 MiB.
pub const LONGEST_MESSAGE: usize = 16 << 20;
