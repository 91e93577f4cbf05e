//! Namespaces: private ones for mounts, new ones for a pod and the pins that keep them, those of other processes, and
//! how to start a program in them.

mod empty_root;
mod identity;
mod init;
mod join;
mod make;
mod mount_copy;
mod mount_count;
mod mount_visit;
mod network_visit;
mod pin;
mod private;
mod process;
mod signal;
mod words;

pub use identity::{Namespace, NamespaceId, NamespaceKind};
pub use init::PidInit;
pub use join::Join;
pub use make::make;
pub use mount_copy::{CopiedFrom, MountCopy};
pub use mount_visit::in_mount_namespace_of;
pub use network_visit::NetworkVisit;
pub(crate) use pin::is_namespace;
pub use private::{PrivateMountNamespace, in_private_mount_namespace};
pub use process::{Namespaces, Process};
pub use signal::send_signal;
