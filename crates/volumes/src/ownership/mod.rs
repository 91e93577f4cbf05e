//! Who a volume's files belong to.
//!
//! - [`Owners`]: whether the container's own numbers are written, or the host's.
//! - [`FsGroup`], [`apply_fs_group`]: a volume given to a group, file by file.
//! - [`fs_user`], [`supplemental_groups`]: what the pod's security context says, put together.

mod apply;
pub(crate) mod change;
mod fs_group;
mod owners;
pub(crate) mod walk;

pub use apply::{Applied, Error, Failure, GroupChange, Progress, apply_fs_group};
pub use fs_group::{FsGroup, FsGroupChangePolicy};
pub use owners::{Owners, fs_user, supplemental_groups};
