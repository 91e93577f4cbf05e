//! Real Kubernetes and real runtimes for tests, in namespaces of their own.
//!
//! - [`catalogue`]: every component with its pinned version, and the sets of components that the tiers need.
//! - [`install`]: builds them from their Go modules, or takes Debian's, into the [`cache`].
//! - [`manifests`]: published manifests of other projects, taken from Go modules and known by their digests.
//! - [`Testbed`]: a subset of etcd, API server, controller manager, scheduler, registry, containerd and kubelet,
//!   started in private mount, network and cgroup namespaces; [`shared`]: one control plane per test run.
//! - [`images`]: stand-ins under upstream's names, made here.
//! - [`registry`]: the real registry with basic and token authentication, and a proxy that makes faults.
//! - [`faults`]: parts stopped, killed, cut off, out of disk, slow.
//! - [`recorder`]: a proxy between a client and containerd that writes down each CRI request; [`compare_cri`]: those of
//!   a kubelet and of `wardlet run`, field by field.
//! - [`signer`]: a signer of PodCertificateRequests.
//! - [`conformance`]: results of the conformance tests, their table in docs/conformance.md, and the blocks of upstream's specs.
//! - [`yardstick`]: what a real kubelet on containerd gives, one command each.
//!
//! A testbed has three layers of processes: the keeper, outside, which cleans up; the supervisor, inside, which holds
//! the namespaces; the daemons, its children. If one of them is killed, those below die with it, and the keeper or the
//! next testbed finds the rest by its cgroup.

pub mod cache;
pub mod catalogue;
pub mod cluster;
pub mod compare_cri;
pub mod conformance;
mod error;
pub mod faults;
pub mod images;
pub mod install;
pub mod manifests;
pub mod own;
pub mod paths;
mod process;
mod program;
pub mod recorder;
pub mod registry;
pub mod signer;
pub mod yardstick;

pub use cluster::handlers::{Handler, Shim};
pub use cluster::parts::{Containerd, NodeAgent, Part, Parts};
pub use cluster::record::{Lifetime, Record};
pub use cluster::shared::shared;
pub use cluster::testbed::{Options, Testbed};
pub use cluster::{User, Validity};
pub use error::{Error, Result};
pub use process::ProcessId;
