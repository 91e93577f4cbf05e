//! What only the kernel can do, each behind a safe call that owns its descriptors.
//!
//! - [`UsernsFd`]: a user namespace with given maps and no process in it.
//! - [`DetachedMount`]: a mount that is attached nowhere yet; idmapped clones are made as such.
//! - [`Overlay`]: an overlay whose lower layers are detached mounts.
//! - [`PrivateMountNamespace`]: mounts that the host never sees and that no crash leaves behind.
//! - [`interrupt`]: Ctrl-C and its like, as a question one can ask.
//!
//! This is the only crate with `unsafe` in it.

mod child;
mod error;
pub mod interrupt;
mod mount;
mod namespace;
mod overlay;
mod userns;

pub use error::{Error, OverlayStep, Result};
pub use mount::{Access, DetachedMount, Submounts};
pub use namespace::{PrivateMountNamespace, in_private_mount_namespace};
pub use overlay::Overlay;
pub use userns::UsernsFd;
