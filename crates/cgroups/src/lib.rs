//! Control groups of either version (v1, v2 or hybrid).
//!
//! - [`Hierarchies`]: the hierarchies that are mounted on this host.
//! - [`Group`]: one group, which has a directory of the same path in each hierarchy: made, limited, read,
//!   emptied and removed.
//! - [`Groups`]: all groups of this host, by their paths.
//! - [`Resources`]: the limits of a group; [`Counters`]: what the kernel has counted for one; [`Rates`]: CPU usage rates.
//! - [`KubePods`]: the cgroups of a node's pods, with the kubelet's names ([`KubeNames`]) and values.
//! - [`kill_abandoned`], [`kill_shim`]: end the processes of a container that its runtime has lost track of.
//! - [`Systemd`]: slices and scopes where process 1 is systemd; [`Groups`] uses them for cgroups that are units by name.
//! - [`Eager`]: starts the RCU grace period of a cgroup migration early.

mod abandoned;
mod counters;
mod eager;
mod error;
mod files;
mod find;
mod group;
mod groups;
mod kill;
pub mod kube;
mod limits;
mod make;
mod processes;
mod rates;
mod resources;
pub mod systemd;
#[cfg(test)]
mod tests;
mod version;

pub use abandoned::{kill_abandoned, kill_shim};
pub use counters::{CounterSet, Counters, Disk, Memory, Pressure, PressureResource, Stall};
pub use eager::Eager;
pub use error::{Error, Result};
pub use find::Hierarchies;
pub use group::{Devices, Group};
pub use groups::Groups;
pub use kube::{KubeNames, KubePods, QosClass};
pub use rates::Rates;
pub use resources::Resources;
pub use systemd::Systemd;
pub use version::Version;
