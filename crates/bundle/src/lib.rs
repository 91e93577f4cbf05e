//! One container made ready and started.
//!
//! - [`Start`]: everything one container needs, as data: whoever wants it fills this in.
//! - [`spec`]: a [`Start`] as the configuration that OCI runtimes read.
//! - [`ready`]: its files, made ready in a mount namespace that the host does not see.
//! - [`defaults`]: the mounts and hidden paths of every container that asked for nothing else.
//! - [`cgroup`]: control groups of either version: limits, numbers, and the end of all processes in one.
//! - [`seccomp`]: the system calls of a container that left the choice to us.
//! - [`sysctl`]: kernel settings of its namespaces.
//! - [`user`]: who its first process is, from what was asked for and the image's own files.
//! - [`capabilities`]: which ones a container has, from what was added and dropped.
//!
//! Nothing here knows Kubernetes or CRI: the built-in runtime and the wrapper both come with a
//! [`Start`].

pub mod capabilities;
pub mod cgroup;
pub mod defaults;
mod error;
mod job;
mod maps;
pub mod ready;
pub mod seccomp;
pub mod spec;
mod start;
pub mod sysctl;
pub mod user;

pub use error::{Error, Result};
pub use job::{Engine, Job};
pub use start::{
    Bind, Cgroup, Console, Device, DeviceRule, GroupPolicy, IdLines, ImageFiles, ImageVolume, MountSpec,
    NewMount, NodeOwner, Owners, Process, ReadOnly, Resources, Rlimit, Rootfs, Seccomp, Space, Spaces, Start,
    User, WantedUser,
};
pub use types::MountPropagation;
