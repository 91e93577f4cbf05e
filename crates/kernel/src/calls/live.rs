use std::path::Path;
use std::sync::Arc;

use super::Kernel;
use crate::{
    Attributes, DetachedMount, Filesystem, IdMaps, LayersGiven, MountPoints, Overlay, Result, Source,
    Submounts, Target, Unmount, UsernsCache, UsernsFd,
};

/// The kernel that runs here.
#[derive(Debug, Default)]
pub struct Live {
    namespaces: UsernsCache,
}

impl Live {
    /// User namespaces are kept for as long as this lives.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// User namespaces are pinned in this directory and found there again.
    #[must_use]
    pub fn pinning_in(dir: &Path) -> Self {
        Self { namespaces: UsernsCache::pinned_in(dir) }
    }
}

impl Kernel for Live {
    fn user_namespace(&self, maps: &IdMaps) -> Result<Arc<UsernsFd>> {
        self.namespaces.get(maps)
    }

    fn forget_user_namespace(&self, maps: &IdMaps) -> Result<()> {
        self.namespaces.forget(maps)
    }

    fn clone_mount(&self, source: Source<'_>, submounts: Submounts) -> Result<DetachedMount> {
        DetachedMount::clone_of(source, submounts)
    }

    fn set_attributes(&self, mount: &mut DetachedMount, attributes: &Attributes<'_>) -> Result<()> {
        mount.set(attributes)
    }

    fn make_filesystem(&self, filesystem: &Filesystem) -> Result<DetachedMount> {
        filesystem.make()
    }

    fn overlay(&self, overlay: Overlay<'_>, points: MountPoints<'_>) -> Result<(DetachedMount, LayersGiven)> {
        overlay.make(points)
    }

    fn attach(&self, mount: DetachedMount, target: Target<'_>) -> Result<()> {
        mount.attach_to(target)
    }

    fn unmount(&self, point: &Path, how: Unmount) -> Result<()> {
        crate::unmount(point, how)
    }
}
