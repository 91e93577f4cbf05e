//! Prepares the filesystems, the network and the standard streams of one container whose pod has a user namespace.
//!
//! This process makes all mounts in a private mount namespace of its own, and then executes the runtime in it: the host
//! sees none of the mounts, and they end with the last process in the namespace. Only the owner of the overlay's upper
//! directory changes on disk.

mod adopt;
mod delete;
mod devices;
mod error;
mod exec;
mod inside;
mod json;
mod layers;
mod make;
mod mounts;
mod network;
mod options;
mod points;
mod rootfs;
mod spaces;
mod stdio;
mod sysctl;
mod users;

use std::path::PathBuf;

use ids::IdMappings;
use plan::CannotIdmap;
use serde_json::Value;

pub use delete::{DeleteOrder, prepare_delete};
pub use error::{Error, Result};
pub use exec::{Joined, has_own_user_namespace, is_in_foreign_network, join_for_exec};
pub use inside::Inside;
pub use make::make;
pub use rootfs::Rootfs;

/// One container to create.
#[derive(Debug, Clone)]
pub struct Order {
    /// The OCI bundle: relative paths of the configuration start there.
    pub bundle: PathBuf,
    /// The container's ID.
    pub container_id: String,
    /// The configuration, as the caller wrote it.
    pub spec: Value,
    /// The root filesystem, as the caller mounted it.
    pub rootfs: Rootfs,
    /// The ID mappings of the pod's user namespace.
    pub ids: IdMappings,
    /// Its role in the pod.
    pub role: Role,
    /// The traits of the OCI runtime.
    pub runtime: RuntimeTraits,
    /// The policy for files that cannot be idmapped.
    pub on_refusal: CannotIdmap,
    /// The staging directory, which the mounts of the private mount namespace cover. It and an empty `rootfs` in it are
    /// created if they do not exist. Every user must be able to traverse the path to it: the container's root user
    /// does, with its host user ID.
    pub stage: PathBuf,
}

/// The role of a container in its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The sandbox container: the runtime creates the user namespace with it.
    Sandbox,
    /// Any other container: it joins the user namespace of the sandbox.
    Inherit {
        /// The PID of the sandbox's init process. The caller has verified that it is that process.
        init: u32,
    },
}

/// The traits of an OCI runtime that the preparation depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeTraits {
    /// Which runtime it is.
    pub kind: RuntimeKind,
    /// The order in which it joins namespaces.
    pub joins: JoinOrder,
    /// Whether it needs ID mappings for a user namespace that it joins.
    pub mappings_with_path: MappingsWithPath,
}

/// The supported OCI runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// runc, or a runtime that behaves in the same way.
    Runc,
    /// crun.
    Crun,
    /// youki.
    Youki,
    /// gVisor's runsc.
    Runsc,
}

impl RuntimeKind {
    /// Whether it can create a container in an existing user namespace. gVisor creates a new one with the same ID
    /// mappings for each of its processes; the users that the container sees are emulated.
    #[must_use]
    pub fn joins_users(self) -> bool {
        self != Self::Runsc
    }

    /// Whether `exec` runs the new process outside of the user namespace and without the seccomp filter (youki, up to
    /// 0.7 at least).
    #[must_use]
    pub fn leaves_users_at_exec(self) -> bool {
        self == Self::Youki
    }

    /// Whether `start` needs the container's files again: gVisor opens those of all containers but the sandbox only
    /// then.
    #[must_use]
    pub fn opens_files_at_start(self) -> bool {
        self == Self::Runsc
    }
}

/// The order in which a runtime joins namespaces that are given by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinOrder {
    /// The user namespace first (runc before 1.2). From there the kernel does not allow setns(2) into a network
    /// namespace that the host's user namespace owns, so that one has to be joined before the runtime runs.
    UsersFirst,
    /// First the namespaces that the host's user namespace owns, as the host's root; then the user namespace.
    HostsFirst,
}

/// Whether a runtime needs ID mappings beside the path of a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingsWithPath {
    /// It fails without them.
    Wanted,
    /// It reads them from the namespace.
    Unwanted,
}

/// A container that is prepared for the runtime.
#[derive(Debug)]
pub struct Made {
    /// The edited configuration, for the runtime.
    pub spec: Value,
    /// The namespaces that this process is in now. It must be kept until this process executes the runtime: dropping it
    /// returns the process to the namespaces that it came from.
    pub inside: Inside,
}

/// A process to run in an existing container.
#[derive(Debug, Clone)]
pub struct ExecOrder {
    /// The PID of the container's init process.
    pub init: u32,
    /// The OCI process (`process.json`), of which only `user` and `terminal` are used.
    pub process: Value,
    /// The ID mappings of the pod's user namespace.
    pub ids: IdMappings,
    /// The traits of the OCI runtime.
    pub runtime: RuntimeTraits,
}
