//! A pod's network: addresses, the bridge, host ports, CNI plugins.
//!
//! [`Network`] is all there is to call. It makes a pod's network by netlink alone, or has CNI plugins make
//! it:
//!
//! | where | what |
//! |---|---|
//! | `bridge` | the device on the host, and each pod's pair of devices |
//! | `lease` | which pod has which address and ports, in files that outlive us |
//! | `ports` | the sockets that hold host ports against processes of the host |
//! | `firewall` | masquerade and host ports: nftables, in our own words |
//! | `cni` | plugins that others have written |
//! | `netlink` | the kernel's language for all of it |
//! | `thread` | work inside a given network namespace, on threads of its own |
//!
//! Every step can be repeated, and can be the last one before a crash: a lease comes first and goes last,
//! the firewall's rules are made from the leases alone.

mod bridge;
mod cni;
mod error;
mod firewall;
#[doc(hidden)]
pub mod fuzzing;
mod lease;
mod netlink;
mod network;
mod pod;
mod ports;
mod settings;
mod subnet;
mod sysctl;
mod thread;
mod turns;

pub use error::{Error, Result};
pub use network::{Network, try_guard};
pub use pod::{Addresses, HostPort, Interface, Pod, Protocol};
pub use ports::{PortHolder, Process};
pub use settings::{BRIDGE, Kind, Settings};
pub use subnet::{Subnet4, Subnet6, Subnets};
