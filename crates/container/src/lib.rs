//! Prepares one container for an OCI runtime.
//!
//! - [`ContainerSpec`]: everything that one container needs, as data: the caller fills this in.
//! - [`spec`]: a [`ContainerSpec`] as the configuration that OCI runtimes read.
//! - [`prepare`]: its root filesystem and mounts, prepared in a mount namespace that the host does not see.
//! - [`defaults`]: the mounts and masked paths of every container that asked for nothing else.
//! - [`seccomp`]: the default seccomp profile.
//! - [`sysctl`]: kernel settings of its namespaces.
//! - [`user`]: the user of its first process, from the request and the image's own files.
//! - [`capabilities`]: the capabilities of a container, from what was added and dropped.
//!
//! Nothing here knows Kubernetes or CRI: the built-in runtime and the wrapper both fill in a [`ContainerSpec`].

pub mod capabilities;
mod container_spec;
pub mod defaults;
mod error;
mod job;
pub mod prepare;
pub mod seccomp;
pub mod spec;
pub mod sysctl;
pub mod user;

pub use cgroups::Resources;
pub use container_spec::{
    Bind, Cgroup, Console, ContainerSpec, Device, DeviceRule, GroupPolicy, ImageFiles, ImageVolume,
    MountSpec, NamespaceSpec, NamespaceSpecs, NewMount, NodeOwner, Owners, Process, ReadOnly, Rlimit, Rootfs,
    Seccomp, User, WantedUser,
};
pub use error::{Error, Result};
pub use job::{Engine, Job};
pub use types::MountPropagation;
