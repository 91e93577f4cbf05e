use std::path::{Path, PathBuf};

use kernel::{Access, Attributes, Flags, Kernel, Source, Submounts, Target};

use super::overlay::Plain;
use super::{Stage, make_dir};
use crate::container_spec::ContainerSpec;
use crate::error::{Error, Result};

/// The image alone, with owners as on disk, attached below the stage: nothing of the container's own
/// changes, and nothing that could be changed.
pub(super) fn attach(kernel: &dyn Kernel, start: &ContainerSpec, stage: Stage<'_>) -> Result<PathBuf> {
    let point = stage.dir.join("image");
    if point.exists() {
        return Ok(point);
    }
    make_dir(&point)?;
    match start.rootfs.lowers.as_slice() {
        [] => return Err(Error::NoLayers { id: start.id.clone() }),
        // An overlay of one layer without changes is none to the kernel.
        [layer] => one(kernel, layer, &point)?,
        lowers => Plain { lowers, changes: None, label: None }.mount_at(&point)?,
    }
    Ok(point)
}

fn one(kernel: &dyn Kernel, layer: &Path, point: &Path) -> Result<()> {
    let mut clone = kernel.clone_mount(Source::Path(layer), Submounts::Without)?;
    let attributes = Attributes { access: Access::ReadOnly, flags: Flags::NODEV, ..Attributes::default() };
    kernel.set_attributes(&mut clone, &attributes)?;
    Ok(kernel.attach(clone, Target::Path(point))?)
}
