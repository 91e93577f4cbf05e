//! A pod's network: addresses, the bridge, host ports, CNI plugins.
//!
//! [`Network`] is the whole interface. It sets up a pod's network by netlink alone, or has CNI plugins do it:
//!
//! | where | what |
//! |---|---|
//! | `bridge` | the bridge on the host, and each pod's veth pair |
//! | `lease` | which pod has which address and ports, in files that survive a restart |
//! | `ports` | the sockets that hold host ports against processes of the host |
//! | `firewall` | masquerade, host ports and source address checks: nftables, by netlink |
//! | `cni` | CNI plugins |
//! | `netlink` | netlink messages and sockets |
//! | `thread` | work inside a given network namespace, on threads of its own |
//!
//! Every step is idempotent, and a crash may follow any of them: a lease is written first and removed last, and the
//! firewall's rules are made from the leases alone.

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
pub use settings::{BRIDGE, CNI_BIN_DIRS, CNI_CONF_DIR, Kind, Settings};
pub use subnet::{Subnet4, Subnet6, Subnets};
