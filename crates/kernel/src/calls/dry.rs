use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::Kernel;
use crate::{
    Attributes, DetachedMount, Error, Filesystem, IdMaps, LayersGiven, MountPoints, Overlay, Result, Source,
    Submounts, Target, Unmount, UsernsFd,
};

/// Changes nothing and succeeds always: the mounts and namespaces that it returns are descriptors of /dev/null. For
/// tests of the order of calls, without root; it does not know what the kernel would answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dry;

impl Kernel for Dry {
    fn user_namespace(&self, maps: &IdMaps) -> Result<Arc<UsernsFd>> {
        Ok(Arc::new(UsernsFd::pretended(nothing()?, maps.clone())))
    }

    fn forget_user_namespace(&self, _maps: &IdMaps) -> Result<()> {
        Ok(())
    }

    fn clone_mount(&self, source: Source<'_>, _submounts: Submounts) -> Result<DetachedMount> {
        Ok(DetachedMount::new(nothing()?, format!("the clone of {}", source.path().display())))
    }

    fn set_attributes(&self, _mount: &mut DetachedMount, _attributes: &Attributes<'_>) -> Result<()> {
        Ok(())
    }

    fn make_filesystem(&self, filesystem: &Filesystem) -> Result<DetachedMount> {
        Ok(DetachedMount::new(nothing()?, format!("a {}", filesystem.kind.name())))
    }

    fn overlay(
        &self,
        overlay: Overlay<'_>,
        _points: MountPoints<'_>,
    ) -> Result<(DetachedMount, LayersGiven)> {
        let what = format!("the overlay over {}", overlay.upper.display());
        Ok((DetachedMount::new(nothing()?, what), LayersGiven::ByDescriptor))
    }

    fn attach(&self, _mount: DetachedMount, _target: Target<'_>) -> Result<()> {
        Ok(())
    }

    fn unmount(&self, _point: &Path, _how: Unmount) -> Result<()> {
        Ok(())
    }
}

fn nothing() -> Result<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::Open { path: "/dev/null".into(), errno })
}
