//! Namespaces: a private one for mounts, whose others are, and how to start a program in them.

mod identity;
mod join;
mod private;
mod process;

pub use identity::{Namespace, NamespaceId, NamespaceKind};
pub use join::Join;
pub use private::{PrivateMountNamespace, in_private_mount_namespace};
pub use process::{Namespaces, Process};
