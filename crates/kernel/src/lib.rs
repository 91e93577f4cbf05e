//! Linux system calls behind safe functions that own their descriptors.
//!
//! | where | what |
//! |---|---|
//! | [`path`](mod@path) | [`Dir`] and [`Node`]: files and directories reached from one that is held open, so that no link, `..` or racing rename leads outside; trees made and removed that way |
//! | [`mount`](mod@mount) | [`MountTable`]: what is mounted. [`DetachedMount`]: a clone or a new [`Filesystem`] that is attached nowhere yet, idmapped or otherwise changed by [`Attributes`]. [`Overlay`]: from such layers, given by descriptor or, where the kernel does not take that, by [`MountPoints`] that are gone again when it is made |
//! | [`userns`](mod@userns) | [`UsernsFd`]: a user namespace with given maps and no process in it, counted against the pod's own user. [`UsernsCache`]: one for each map, kept by pins over restarts |
//! | [`namespace`](mod@namespace) | [`PrivateMountNamespace`]: mounts that the host never sees and that no crash leaves behind. [`MountCopy`]: the mounts of another mount namespace, from its root, to be looked at one below the other. [`Process`]: a process held by descriptor, and [`Namespaces`] it is in. [`Join`]: a program started in all of them at once. [`NetworkVisit`]: the calling thread in another network |
//! | [`confine`] | [`confine::Confined`]: one more process in a container, with the restrictions of its first one |
//! | [`probe`](mod@probe) | what this kernel and this filesystem can do, by trying it |
//! | [`calls`](mod@calls) | [`Kernel`]: the calls that change something, as a trait; [`Live`] makes them, [`Recorder`] also records them, [`Dry`] makes none |
//! | [`filter_devices`] | which devices a cgroup v2 may use |
//! | [`disk_usage`] | what directory trees take of the disk, while containers write to them |
//! | [`is_open_for_writing`] | whether a file has a writer |
//! | [`interrupt`] | SIGINT, SIGTERM and SIGHUP, as a flag that can be polled |
//!
//! This is the only crate with `unsafe` in it.

pub mod calls;
mod cloexec;
pub mod confine;
mod descriptors;
mod device_filter;
pub mod disk_usage;
mod error;
pub mod interrupt;
mod keyring;
mod malloc;
pub mod mount;
pub mod namespace;
mod oom_score;
mod parent_death;
pub mod path;
pub mod probe;
mod processors;
mod signals;
mod spawn_detached;
mod undumpable;
pub mod userns;
mod writers;

pub use calls::{Call, Dry, Kernel, Live, Recorder, Tell};
pub use cloexec::{inherited, set_cloexec};
pub use descriptors::{share_descriptors, share_memory};
pub use device_filter::{AccessKinds, DeviceAccess, DeviceKind, filter_devices};
pub use error::{Error, OverlayStep, Result};
pub use keyring::new_session_keyring;
pub use malloc::limit_malloc_arenas;
pub use mount::{
    Access, Attributes, DetachedMount, Filesystem, FilesystemKind, Flags, FsOption, FsValue, LayersGiven,
    MountEntry, MountPoints, MountTable, Overlay, Propagation, Source, Submounts, Target, Unmount, unmount,
    verify_context,
};
pub use namespace::{
    CopiedFrom, Join, MountCopy, Namespace, NamespaceId, NamespaceKind, Namespaces, NetworkVisit, PidInit,
    PrivateMountNamespace, Process, in_mount_namespace_of, in_private_mount_namespace,
};
pub use oom_score::reset_oom_score_adj;
pub use parent_death::die_with_parent;
pub use path::{
    Dir, DirMode, Entry, Kind, LastLink, Node, Owner, Relabelled, Removed, Stat, Within, making_files_as,
    relabel,
};
pub use processors::possible_cpus;
pub use signals::{default_signals, exec, with_callers_signals};
pub use spawn_detached::spawn_detached;
pub use undumpable::set_undumpable;
pub use userns::{Charge, IdMaps, UsernsCache, UsernsFd};
pub use writers::is_open_for_writing;
