//! What only the kernel can do, each behind a safe call that owns its descriptors.
//!
//! - [`UsernsFd`]: a user namespace with given maps and no process in it.
//! - [`DetachedMount`]: a mount that is attached nowhere yet; idmapped clones are made as such.
//! - [`Overlay`]: an overlay whose lower layers are detached mounts, given by descriptor or, where the
//!   kernel does not take that, by [`MountPoints`] that are gone again when it is made.
//! - [`PrivateMountNamespace`]: mounts that the host never sees and that no crash leaves behind.
//! - [`interrupt`]: Ctrl-C and its like, as a question one can ask.
//!
//! This is the only crate with `unsafe` in it.

mod child;
mod error;
pub mod interrupt;
mod mount;
mod mount_points;
mod namespace;
mod overlay;
mod userns;

pub use error::{Error, OverlayStep, Result};
pub use mount::{Access, DetachedMount, Submounts};
pub use mount_points::MountPoints;
pub use namespace::{PrivateMountNamespace, in_private_mount_namespace};
pub use overlay::{LayersGiven, Overlay};
pub use userns::UsernsFd;
