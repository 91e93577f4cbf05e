//! An image of several layers as one tree.

use kernel::{
    Access, Attributes, DetachedMount, DirMode, Flags, Kernel, MountPoints, Overlay, Source, Submounts,
};

use super::dir::PodDir;
use super::set_up::give;
use super::users::Users;
use crate::error::Result;
use crate::kinds::ImageTree;
use crate::layout::MadeKind;
use crate::record::Numbers;
use types::VolumeName;

/// What it takes to put layers together.
pub(crate) struct Layers<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) pod: &'a PodDir,
    pub(crate) users: &'a Users<'a>,
}

impl Layers<'_> {
    /// An overlay of the layers that nothing can be written through; `None` for an image that is one
    /// directory. An overlay cannot be idmapped, so its layers are.
    pub(crate) fn stack(
        &self,
        name: &VolumeName,
        image: &ImageTree,
        numbers: Numbers,
    ) -> Result<Option<DetachedMount>> {
        if image.layers.len() < 2 {
            return Ok(None);
        }
        let lowers = image.layers.iter().map(|layer| self.layer(layer, numbers)).collect::<Result<_>>()?;
        let beside = MadeKind::Image.beside(name);
        let (upper, work) = (beside.join("upper"), beside.join("work"));
        let own = self.users.root(Numbers::Hosts)?;
        give(&self.pod.make(&upper)?, DirMode { mode: 0o755, owner: Some(own) })?;
        self.pod.make(&work)?;
        let (upper, work) = (self.pod.path(&upper), self.pod.path(&work));
        let overlay = Overlay { lowers, upper: &upper, work: &work, label: None, options: &[] };
        let made = kernel::in_private_mount_namespace(|namespace| {
            self.kernel.overlay(overlay, MountPoints::new(self.pod.dir().path(), namespace))
        })?;
        let (mut mount, _) = made?;
        let attributes =
            Attributes { access: Access::ReadOnly, flags: Flags::NOEXEC, ..Attributes::default() };
        self.kernel.set_attributes(&mut mount, &attributes)?;
        Ok(Some(mount))
    }

    fn layer(&self, layer: &std::path::Path, numbers: Numbers) -> Result<DetachedMount> {
        let mut clone = self.kernel.clone_mount(Source::Path(layer), Submounts::Without)?;
        let idmap = self.users.idmap().filter(|_| numbers == Numbers::Containers);
        let attributes = Attributes { idmap, access: Access::ReadOnly, ..Attributes::default() };
        self.kernel.set_attributes(&mut clone, &attributes)?;
        Ok(clone)
    }
}
