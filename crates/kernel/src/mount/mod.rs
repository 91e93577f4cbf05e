//! Mounts: what is mounted, clones and filesystems that are attached nowhere yet, overlays.

mod attributes;
mod context;
mod detached;
mod filesystem;
mod log;
mod overlay;
mod points;
mod syscalls;
mod table;
mod unmount;

pub use attributes::{Access, Attributes, Flags, Propagation};
pub use context::verify_context;
pub use detached::{DetachedMount, Source, Submounts, Target};
pub use filesystem::{Filesystem, FilesystemKind, FsOption, FsValue};
pub use overlay::{LayersGiven, Overlay};
pub use points::MountPoints;
pub use table::{MountEntry, MountTable};
pub use unmount::{Unmount, unmount};

pub(crate) use detached::tree;
use log::fs_log;
