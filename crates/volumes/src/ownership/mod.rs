//! Owners of a volume's files.
//!
//! - [`Owners`]: whether container IDs or host IDs are written.
//! - [`FsGroup`], [`apply_fs_group`]: a volume given to a group, file by file.
//! - [`fs_user`], [`supplemental_groups`]: from the pod's security context.

mod apply;
pub(crate) mod change;
mod fs_group;
pub(crate) mod outside;
mod owners;
pub(crate) mod walk;

pub use apply::{Applied, Error, Failure, GroupChange, Progress, apply_fs_group};
pub use fs_group::{FsGroup, FsGroupChangePolicy};
pub use owners::{Owners, fs_user, supplemental_groups};
