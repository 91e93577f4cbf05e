//! The conflicts of a cluster, always: which pods will wait for each other because they share a volume under different
//! SELinux labels.
//!
//! | where | what |
//! |---|---|
//! | [`run`], [`Options`] | all of it in one |
//! | `objects`, `watch` | Pods, PersistentVolumeClaims, PersistentVolumes, CSIDrivers and Nodes, listed page by page and followed, as slim types |
//! | `cluster` | the conflict engine, fed in whatever order objects come |
//! | `metrics`, `serve` | upstream's metric and numbers, for callers that the API server allows to read them; checks of health |
//! | `events` | one event for each pod, volume and property, over restarts and changes of the leader |
//! | `status` | numbers for gates, in a ConfigMap |
//! | `leader` | one replica writes: a Lease |
//!
//! Every replica watches and serves metrics; the leader writes events and the status. What a pod of one namespace must
//! not know of another is in neither. A right that is missing for one resource is reported, and the rest works; an API
//! server that is away is no error.

mod cluster;
mod error;
mod events;
mod leader;
mod metrics;
mod objects;
mod run;
mod serve;
mod shared;
mod status;
mod watch;

pub use error::Error;
pub use run::{Options, Series, ServingFiles, run};
