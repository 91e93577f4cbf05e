use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kernel::{
    Access, DetachedMount, LayersGiven, MountPoints, Overlay, PrivateMountNamespace, Submounts, UsernsFd,
};

use crate::layer;
use crate::lease::Leased;
use crate::scratch::Scratch;

/// All that the container will see, on disk and mounted.
pub(crate) struct Stage {
    /// The image's layer on disk, and the volume on disk: never to be touched.
    pub(crate) layer: PathBuf,
    pub(crate) volume: PathBuf,
    /// The container's own changes, owned by its host IDs.
    pub(crate) upper: PathBuf,
    /// The overlay, and the volume seen through the map: only in this mount namespace.
    pub(crate) root: PathBuf,
    pub(crate) mapped_volume: PathBuf,
}

impl Stage {
    /// Puts everything on disk; mounts nothing yet.
    pub(crate) fn set(scratch: &Scratch, busybox: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            layer: layer::image_layer(scratch, busybox)?,
            volume: layer::volume(scratch)?,
            upper: scratch.directory("upper")?,
            root: scratch.directory("root")?,
            mapped_volume: scratch.directory("mapped-volume")?,
        })
    }

    /// Mounts the root filesystem and the volume through the map of the lease, and says how the
    /// kernel took the image's layer.
    pub(crate) fn mount(
        &self,
        scratch: &Scratch,
        leased: Leased,
        namespace: &PrivateMountNamespace,
    ) -> anyhow::Result<LayersGiven> {
        let userns = UsernsFd::create(&[leased.uid_map()], &[leased.gid_map()])?;
        // Before the overlay is made, which takes its root's owner from here.
        chown(&self.upper, Some(leased.uids.base().get()), Some(leased.gids.base().get()))
            .with_context(|| format!("cannot give {} to the container's root", self.upper.display()))?;
        let layer = DetachedMount::idmapped(&self.layer, &userns, Access::ReadOnly, Submounts::Without)?;
        let work = scratch.directory("work")?;
        let points = scratch.directory("mount-points")?;
        let overlay =
            Overlay { lowers: vec![layer], upper: &self.upper, work: &work, label: None, options: &[] };
        let (overlay, given) = overlay.make(MountPoints::new(&points, namespace))?;
        overlay.attach(&self.root)?;
        DetachedMount::idmapped(&self.volume, &userns, Access::ReadWrite, Submounts::Without)?
            .attach(&self.mapped_volume)?;
        Ok(given)
    }
}
