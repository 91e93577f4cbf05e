//! One process per pod, which keeps its containers' streams, logs and exit codes.
//!
//! - [`Launch`]: starts a pod's monitor, which outlives the process that started it.
//! - [`Client`]: a connection to one. [`Request`]s are answered by [`Reply`]s; [`Event`]s come unasked.
//! - [`record`]: what a monitor records: the process of a container ([`Started`]) and how it ended ([`Exit`]).
//! - [`job`]: the part of a container's `job.json` that a monitor reads.
//! - [`packet`]: one message of the socket, with descriptors.
//!
//! The program `wardlet-monitor` is made of the same parts. It has one thread, which blocks only in one call of
//! `poll`.

pub mod client;
mod error;
pub mod job;
mod launch;
pub mod message;
pub mod packet;
pub mod record;

pub use client::Client;
pub use error::{Error, Result};
pub use launch::{Launch, SharedPid};
pub use message::{
    Attach, Event, Exited, Failed, Listed, LogLimits, Reply, Request, StartRequest, Started as StartedReply,
    Stdin,
};
pub use procfs::ProcessId;
pub use record::{Ending, Exit, MonitorRecord, Started, User};
