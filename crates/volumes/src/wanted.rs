//! What a pod's volumes are to be: the plan's decisions with what it takes to carry them out.

use std::path::PathBuf;

use ids::{ContainerId, UserNamespace};
use plan::Owners;

use crate::kinds::{EmptyDir, HostPath, ImageTree, Written};
use crate::sub_path::SubPath;
use types::{ContainerName, MountPropagation, PodUid, VolumeName};

/// A pod's volumes and mounts, as they are to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The pod.
    pub pod: PodUid,
    /// Its user namespace. For a pod in a shared block, that block.
    pub users: UserNamespace,
    /// The group that is to own what the node makes for it.
    pub fs_group: Option<ContainerId>,
    /// Its volumes; names are unique.
    pub volumes: Vec<WantedVolume>,
}

/// A volume, as it is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedVolume {
    /// Its name.
    pub name: VolumeName,
    /// How its files come to be the pod's, as planned.
    pub owners: Owners,
    /// What it is made of.
    pub source: Source,
}

/// What a volume is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Scratch space.
    EmptyDir(EmptyDir),
    /// Something of the host's.
    HostPath(HostPath),
    /// Files that the node writes.
    Written(Written),
    /// An image's file tree, unpacked.
    Image(ImageTree),
}

impl Source {
    /// How a container may have it that asks for `asked`: files that the node writes are never a
    /// container's to change.
    pub(crate) fn access(&self, asked: MountAccess) -> MountAccess {
        match (self, asked) {
            (Self::Written(_), MountAccess::ReadWrite) => MountAccess::ReadOnly,
            _ => asked,
        }
    }
}

/// What one container is to see of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedMount {
    /// The container.
    pub container: ContainerName,
    /// Its place among the container's mounts, from 0.
    pub index: usize,
    /// The volume.
    pub volume: VolumeName,
    /// Where it appears in the container: absolute.
    pub path: PathBuf,
    /// The part of the volume; `None` is all of it.
    pub sub_path: Option<SubPath>,
    /// Whether it can be written through. Files that the node writes never can.
    pub access: MountAccess,
    /// Where mounts that are made below it turn up as well.
    pub propagation: MountPropagation,
    /// Whether a foreign runtime is to relabel its files.
    pub relabel: Relabel,
}

/// Whether a mount can be written through, and those below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MountAccess {
    /// As the filesystem allows.
    #[default]
    ReadWrite,
    /// Not through the mount itself; those below it stay as they are.
    ReadOnly,
    /// Not through any of them.
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
