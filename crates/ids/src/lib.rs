//! Host user and group IDs: what may be given to a pod, and what never can be.
//!
//! - [`HostId`], [`ContainerId`]: the two sides of a user namespace's map; 2^32-1 is neither.
//! - [`HostSpan`]: any run of host IDs, as others on the host use them.
//! - [`IdBlock`]: a run that may be *leased*. One that touches the host's first 65536 IDs or
//!   contains 2^32-1 cannot be built.
//! - [`IdMapping`], [`UserNamespace`]: maps and translation both ways, never by guess. A map that a
//!   caller brought is a [`CallerMapping`], which no lease can be made from. [`IdMappings`] are the lines alone, as
//!   records hold them and the kernel takes them.
//! - [`pool`]: which blocks this node may lease, and where that was decided.
//! - [`allocator`]: free → leased → draining → quarantined → free, oldest-freed first.
//! - [`parse`]: subuid text, `/proc/PID/uid_map`, the kubelet's `userns` record.
//! - [`witness`]: what a scan of the host reports on the use of IDs; the ledger relies on nothing else.
//!
//! Nothing here reads a file, a clock or an environment.

pub mod allocator;
mod block;
mod id;
mod mapping;
mod mappings;
pub mod parse;
pub mod pool;
mod span;
pub mod witness;

pub use block::{BlockError, BlockLength, IdBlock, LengthError, UNIT};
pub use id::{ContainerId, HostId, IdKind, IdOutOfRange};
pub use mapping::{CallerMapping, IdMapping, MappingError, Unmapped, UserNamespace};
pub use mappings::IdMappings;
pub use span::{HostSpan, SpanError};

/// How many cases each property is tried on: 10 000, or what `PROPTEST_CASES` says.
#[cfg(test)]
pub(crate) fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}
