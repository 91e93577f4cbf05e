//! One container made ready and started.
//!
//! - [`Start`]: everything one container needs, as data: whoever wants it fills this in.
//! - [`spec`]: a [`Start`] as the configuration that OCI runtimes read.
//! - [`ready`]: its files, made ready in a mount namespace that the host does not see.
//! - [`capabilities`]: which ones a container has, from what was added and dropped.
//!
//! Nothing here knows Kubernetes or CRI: the built-in runtime and the wrapper both come with a
//! [`Start`].

pub mod capabilities;
mod error;
pub mod ready;
pub mod spec;
mod start;

pub use error::{Error, Result};
pub use start::{
    Bind, Cgroup, Console, Device, DeviceRule, IdLines, MountSpec, NewMount, Process, ReadOnly, Resources,
    Rlimit, Rootfs, Seccomp, Space, Spaces, Start, Travel, User,
};
