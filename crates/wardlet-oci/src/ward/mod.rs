//! The files, the network and the descriptors of one container whose pod has a user namespace.
//!
//! All mounts are made in a mount namespace of this process, in which the runtime is then run: the host sees
//! none of them, and they end with the last process inside. What stays on disk is the owner of the
//! directory that takes the container's changes.

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
mod rootfs;
mod spaces;
mod stdio;
mod sysctl;
mod users;

use std::path::PathBuf;

use bundle::IdLines;
use plan::CannotIdmap;
use serde_json::Value;

pub use delete::{DeleteOrder, prepare_delete};
pub use error::{Error, Result};
pub use exec::{Joined, has_users_of_its_own, is_on_a_network_of_the_hosts, join_for_exec};
pub use inside::Inside;
pub use make::{Room, make, make_in};
pub use rootfs::Rootfs;

/// One container that is to be created.
#[derive(Debug, Clone)]
pub struct Order {
    /// The caller's bundle: relative paths of the configuration start there.
    pub bundle: PathBuf,
    /// Its name, as the caller gave it.
    pub container_id: String,
    /// The caller's configuration.
    pub spec: Value,
    /// Its `/`, as the caller has made it.
    pub rootfs: Rootfs,
    /// The maps of the pod's user namespace.
    pub ids: IdLines,
    /// What it is to its pod.
    pub role: Role,
    /// What has to be known of the runtime.
    pub runtime: RuntimeTraits,
    /// What becomes of files that cannot be idmapped.
    pub on_refusal: CannotIdmap,
    /// A directory that is covered, in the namespace only; made if it is not there, with an empty one in it.
    /// Every user must be able to pass to it: the container's root does, as the host user that it is.
    pub stage: PathBuf,
}

/// What a container is to its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The first one: the user namespace is made with it.
    Sandbox,
    /// One of the others, in the first one's user namespace.
    Inherit {
        /// A process in it, known to be the first one's.
        init: u32,
    },
}

/// What has to be known of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeTraits {
    /// Which it is.
    pub kind: RuntimeKind,
    /// How it joins namespaces.
    pub joins: JoinOrder,
    /// Whether it wants maps for a user namespace that is there already.
    pub mappings_with_path: MappingsWithPath,
}

/// The runtimes that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// runc, or one that behaves as it does.
    Runc,
    /// crun.
    Crun,
    /// youki.
    Youki,
    /// gVisor's.
    Runsc,
}

impl RuntimeKind {
    /// Whether it can put a container into a user namespace that is there already. gVisor's processes each
    /// get a new one, with the same maps; what the container sees of users is of gVisor's own making.
    #[must_use]
    pub fn joins_users(self) -> bool {
        self != Self::Runsc
    }

    /// Whether it forgets the user namespace, and what system calls are allowed, when it runs one more process
    /// in a container (youki, up to 0.7 at least).
    #[must_use]
    pub fn leaves_users_at_exec(self) -> bool {
        self == Self::Youki
    }

    /// Whether starting a container that was created takes its files once more: gVisor makes those of all
    /// but a pod's first one ready only then.
    #[must_use]
    pub fn opens_files_at_start(self) -> bool {
        self == Self::Runsc
    }
}

/// In which order a runtime joins namespaces that are given by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinOrder {
    /// The user namespace first. From there the kernel lets nobody into a network namespace of the host's
    /// users, so that has to be joined before the runtime runs (runc before 1.2).
    UsersFirst,
    /// Those of the host's users as the host's root.
    HostsFirst,
}

/// Whether a runtime wants maps beside the path of a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingsWithPath {
    /// It does not start without them.
    Wanted,
    /// It reads them from the namespace.
    Unwanted,
}

/// A container whose files are ready.
#[derive(Debug)]
pub struct Made {
    /// The configuration that the runtime is to be given.
    pub spec: Value,
    /// The namespaces that this process is in now. Until the runtime is run in this process, this is to be
    /// kept: dropped, it takes the process back.
    pub inside: Inside,
}

/// A process to be run in a container that is there.
#[derive(Debug, Clone)]
pub struct ExecOrder {
    /// The first process of the container.
    pub init: u32,
    /// The process to be run, as OCI has it (`process.json`); its `user` is what counts here.
    pub process: Value,
    /// The maps of the pod's user namespace.
    pub ids: IdLines,
    /// What has to be known of the runtime.
    pub runtime: RuntimeTraits,
}
