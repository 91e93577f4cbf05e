//! The desired state of a pod's volumes: the plan's decisions with what it takes to execute them.

use std::path::PathBuf;

use ids::{ContainerId, UserNamespace};
use plan::Owners;

use crate::kinds::{EmptyDir, HostPath, ImageTree, Written};
use crate::sub_path::SubPath;
use types::{ContainerName, MountPropagation, PodUid, VolumeName};

/// The desired volumes and mounts of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The pod.
    pub pod: PodUid,
    /// Its user namespace. For a pod in a shared block, that block.
    pub users: UserNamespace,
    /// The fsGroup.
    pub fs_group: Option<ContainerId>,
    /// Its volumes; names are unique.
    pub volumes: Vec<WantedVolume>,
}

/// A desired volume.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedVolume {
    /// Its name.
    pub name: VolumeName,
    /// How its files get the pod's owners, as planned.
    pub owners: Owners,
    /// Its source.
    pub source: Source,
}

/// The source of a volume.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Scratch space.
    EmptyDir(EmptyDir),
    /// A path of the host.
    HostPath(HostPath),
    /// Files that the node writes.
    Written(Written),
    /// An image's file tree, unpacked.
    Image(ImageTree),
}

impl Source {
    /// The access of a container that requests `asked`: files that the node writes are always read-only.
    pub(crate) fn access(&self, asked: MountAccess) -> MountAccess {
        match (self, asked) {
            (Self::Written(_), MountAccess::ReadWrite) => MountAccess::ReadOnly,
            _ => asked,
        }
    }
}

/// A desired mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedMount {
    /// The container.
    pub container: ContainerName,
    /// Its index among the container's mounts, from 0.
    pub index: usize,
    /// The volume.
    pub volume: VolumeName,
    /// The mount point in the container: absolute.
    pub path: PathBuf,
    /// The subPath; `None` is all of the volume.
    pub sub_path: Option<SubPath>,
    /// Its access. Files that the node writes are always read-only.
    pub access: MountAccess,
    /// Its mount propagation.
    pub propagation: MountPropagation,
    /// Whether the runtime is to relabel its files.
    pub relabel: Relabel,
}

/// The access of a mount and of those below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MountAccess {
    /// Read-write, as the filesystem allows.
    #[default]
    ReadWrite,
    /// Read-only; mounts below it stay as they are.
    ReadOnly,
    /// Read-only, with all mounts below it.
    RecursiveReadOnly,
}

/// Whether a runtime relabels a mount's files for SELinux.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Relabel {
    /// It leaves them as they are.
    #[default]
    No,
    /// It gives them the container's label.
    Yes,
}

impl Wanted {
    /// The volume of this name.
    #[must_use]
    pub fn volume(&self, name: &VolumeName) -> Option<&WantedVolume> {
        self.volumes.iter().find(|v| v.name == *name)
    }
}
