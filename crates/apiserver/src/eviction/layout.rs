//! On which disks of a node pods write and images are, and what follows from that.

use ::node::kubelet::EvictionSignal;
use admission::kubelet::evict::DiskParts;

use crate::usage::Devices;

/// Where a node has the writable layers of containers and the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskLayout {
    /// On the filesystem of pods' volumes and logs.
    Single,
    /// Together on a filesystem of their own.
    SeparateImages,
    /// Images have a filesystem of their own.
    SplitImages,
}

/// What is removed before a pod is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removable {
    /// Containers of pods that are gone.
    Containers,
    /// Images that no pod uses.
    Images,
}

/// A filesystem of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Node,
    Images,
    Containers,
}

/// `None` for a signal that is not about a disk.
fn disk(signal: EvictionSignal) -> Option<Disk> {
    match signal {
        EvictionSignal::NodeFsAvailable | EvictionSignal::NodeFsInodesFree => Some(Disk::Node),
        EvictionSignal::ImageFsAvailable | EvictionSignal::ImageFsInodesFree => Some(Disk::Images),
        EvictionSignal::ContainerFsAvailable | EvictionSignal::ContainerFsInodesFree => {
            Some(Disk::Containers)
        }
        EvictionSignal::MemoryAvailable
        | EvictionSignal::AllocatableMemoryAvailable
        | EvictionSignal::PidAvailable => None,
    }
}

impl DiskLayout {
    pub(super) fn of(devices: Devices) -> Self {
        let Devices { node, images, containers } = devices;
        if images.is_none_or(|images| images == node) {
            Self::Single
        } else if containers.is_none_or(|containers| Some(containers) == images) {
            Self::SeparateImages
        } else {
            Self::SplitImages
        }
    }

    /// What of what pods have written is on the disk of this signal.
    pub(super) fn parts(self, signal: EvictionSignal) -> DiskParts {
        match (self, disk(signal)) {
            (_, None) | (Self::Single, Some(_)) => DiskParts::All,
            (Self::SeparateImages, Some(Disk::Node)) => DiskParts::LogsAndVolumes,
            (Self::SeparateImages, Some(Disk::Images | Disk::Containers)) => DiskParts::Layers,
            (Self::SplitImages, Some(Disk::Node | Disk::Containers)) => DiskParts::All,
            (Self::SplitImages, Some(Disk::Images)) => DiskParts::None,
        }
    }

    /// What of what a container has written is on the disk of the node.
    pub(super) fn on_node(self) -> DiskParts {
        self.parts(EvictionSignal::NodeFsAvailable)
    }

    /// What can be removed from the disk of this signal.
    pub(super) fn removable(self, signal: EvictionSignal) -> &'static [Removable] {
        match (self, disk(signal)) {
            (_, None) | (Self::SeparateImages, Some(Disk::Node)) => &[],
            (Self::Single, Some(_)) | (Self::SeparateImages, Some(Disk::Images | Disk::Containers)) => {
                &[Removable::Containers, Removable::Images]
            }
            (Self::SplitImages, Some(Disk::Images)) => &[Removable::Images],
            (Self::SplitImages, Some(Disk::Node | Disk::Containers)) => &[Removable::Containers],
        }
    }

    /// The signal whose threshold counts for the disk of containers, too.
    pub(super) fn like_containers(self, signal: EvictionSignal) -> Option<EvictionSignal> {
        let is_like = match self {
            Self::Single | Self::SplitImages => disk(signal) == Some(Disk::Node),
            Self::SeparateImages => disk(signal) == Some(Disk::Images),
        };
        let same = match signal {
            EvictionSignal::NodeFsAvailable | EvictionSignal::ImageFsAvailable => {
                EvictionSignal::ContainerFsAvailable
            }
            EvictionSignal::NodeFsInodesFree | EvictionSignal::ImageFsInodesFree => {
                EvictionSignal::ContainerFsInodesFree
            }
            _ => return None,
        };
        is_like.then_some(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_tell_which_disks_there_are() {
        let of = |node, images, containers| DiskLayout::of(Devices { node, images, containers });
        assert_eq!(of(1, Some(1), Some(1)), DiskLayout::Single);
        assert_eq!(of(1, None, None), DiskLayout::Single);
        assert_eq!(of(1, Some(2), Some(2)), DiskLayout::SeparateImages);
        assert_eq!(of(1, Some(2), None), DiskLayout::SeparateImages);
        assert_eq!(of(1, Some(2), Some(1)), DiskLayout::SplitImages);
    }

    #[test]
    fn only_what_is_on_a_disk_is_counted_and_removed_for_it() {
        use EvictionSignal::{ContainerFsAvailable, ImageFsInodesFree, MemoryAvailable, NodeFsAvailable};
        let both: &[Removable] = &[Removable::Containers, Removable::Images];
        for (layout, signal, parts, removable) in [
            (DiskLayout::Single, NodeFsAvailable, DiskParts::All, both),
            (DiskLayout::Single, ImageFsInodesFree, DiskParts::All, both),
            (DiskLayout::SeparateImages, NodeFsAvailable, DiskParts::LogsAndVolumes, &[]),
            (DiskLayout::SeparateImages, ImageFsInodesFree, DiskParts::Layers, both),
            (DiskLayout::SeparateImages, ContainerFsAvailable, DiskParts::Layers, both),
            (DiskLayout::SplitImages, NodeFsAvailable, DiskParts::All, &[Removable::Containers]),
            (DiskLayout::SplitImages, ImageFsInodesFree, DiskParts::None, &[Removable::Images]),
            (DiskLayout::Single, MemoryAvailable, DiskParts::All, &[]),
        ] {
            assert_eq!(
                (layout.parts(signal), layout.removable(signal)),
                (parts, removable),
                "{layout:?} {signal:?}"
            );
        }
    }
}
