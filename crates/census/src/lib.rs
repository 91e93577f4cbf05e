//! Which processes, namespaces and files use or claim which host IDs on this host.
//!
//! - [`Census`]: a scan of the host gives a [`Report`] of every [`Owner`], of what could not be seen (*blind* spots)
//!   and of files that could not be parsed (*problems*). It is the ledger's [`Witness`](ids::witness::Witness).
//! - Live owners, from `/proc`: the credentials of every thread, and every user namespace that a
//!   task lives in, an open descriptor refers to, an nsfs mount holds, or a namespace that is found in one of
//!   these ways belongs to.
//! - Claims, from files: passwd, group, subuid, subgid, kubelet records, the stores of podman (and
//!   CRI-O) and of Incus (and LXD).
//! - [`audit()`]: overlaps, leaks and host IDs given away, from a report and the ledger's leases.
//!
//! What a scan cannot see, and therefore does not report: a user namespace that is held only by a mount that is
//! idmapped with it, by a descriptor in flight on a socket, or by an nsfs mount in a mount namespace without tasks.
//! None of these has a process with an ID of the block.
//!
//! An nsfs mount that another mount covers cannot be reached. The scan searches for its namespace among tasks and
//! descriptors. If it is not there, the mount is a blind spot if its mount namespace belongs to the host's user
//! namespace. If it belongs to another one, nothing inside has power over more than the IDs of that one, which are
//! seen.
//!
//! A scan for a lease reads the credentials and maps of all tasks and a bounded number of descriptors; if there are
//! more, it is blind to them. A scan for freeing reads all.

mod audit;
mod census;
mod claims;
mod error;
mod host_root;
mod live;
mod owner;

pub use audit::{Audit, Finding, LeaseClaim, Severity, Verdict, What, audit};
pub use census::Census;
pub use error::CensusError;
pub use host_root::HostRoot;
pub use owner::{Home, Owner, OwnerKind, Problem, Report, Role, Via};
