//! Leader election by a Lease: one replica at a time writes events and the status.
//!
//! - [`election`]: what a replica does with the lease that it finds. Pure.
//! - [`Elector`]: the lease at the API server.

mod election;
mod elector;

pub(crate) use elector::Elector;
