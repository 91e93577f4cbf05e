use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use kernel::{
    Access, Attributes, DetachedMount, Flags, FsOption, Kernel, LayersGiven, MountPoints, Overlay, Source,
    Submounts, Target, UsernsFd,
};

use rustix::io::Errno;

use super::chown::{self, At, ChownCost};
use super::{Stage, make_dir};
use crate::container_spec::{ContainerSpec, Owners};
use crate::error::{Error, Result};
use ids::IdMappings;

/// How an image's files got the IDs of the container's user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayersMapped {
    /// They are the host's: the pod has its IDs.
    AsOnDisk(LayersGiven),
    /// Each layer is seen through the pod's maps.
    Idmapped(LayersGiven),
    /// Each file was given to the pod's users in the container's own layer.
    Chowned(ChownCost),
}

/// The layers of a container's root filesystem.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// The image's, the uppermost first, with container-side owners.
    pub lowers: &'a [PathBuf],
    /// The overlay's upper directory.
    pub upper: &'a Path,
    /// The overlay's work directory, beside `upper`.
    pub work: &'a Path,
    /// One SELinux label for all files.
    pub label: Option<&'a str>,
    /// Further mount options of the overlay.
    pub options: &'a [FsOption],
}

/// The container's `/`, attached below the stage.
pub(super) fn make(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    users: Option<&UsernsFd>,
    stage: Stage<'_>,
) -> Result<(PathBuf, LayersMapped)> {
    let rootfs = &start.rootfs;
    let top = rootfs.lowers.first().ok_or_else(|| Error::NoLayers { id: start.id.clone() })?;
    give_to_root(&rootfs.upper, start.ids.as_ref(), top)?;
    let point = stage.dir.join("rootfs");
    make_dir(&point)?;
    let at = At { point: &point, stage };
    let (label, options) = (rootfs.label.as_deref(), &[]);
    let layers = Layers { lowers: &rootfs.lowers, upper: &rootfs.upper, work: &rootfs.work, label, options };
    let mapped = match (&start.ids, rootfs.owners) {
        (Some(ids), Owners::Chown) => LayersMapped::Chowned(chown::mount(kernel, start, ids, at)?),
        (Some(ids), Owners::IdmapOrChown) => match seen_through(kernel, layers, users, at) {
            Err(error) if cannot_map(&error) => LayersMapped::Chowned(chown::mount(kernel, start, ids, at)?),
            answer => answer?,
        },
        _ => seen_through(kernel, layers, users, at)?,
    };
    Ok((point, mapped))
}

/// Whether this kernel cannot idmap the layers, or make an overlay of layers that are. Anything else (a full
/// disk, a layer that is gone) would not be better with new owners.
fn cannot_map(error: &Error) -> bool {
    let cannot = [Errno::INVAL, Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS];
    match error {
        Error::LayerNotIdmappable { .. } => true,
        Error::Kernel(error) => {
            matches!(&**error, kernel::Error::Overlay { errno, .. } if cannot.contains(errno))
        }
        _ => false,
    }
}

/// An overlay whose layers are seen through the pod's maps, or as they are.
pub(super) fn seen_through(
    kernel: &dyn Kernel,
    layers: Layers<'_>,
    users: Option<&UsernsFd>,
    at: At<'_>,
) -> Result<LayersMapped> {
    let layer = |layer: &PathBuf| lower(kernel, layer, users);
    let lowers = layers.lowers.iter().map(layer).collect::<Result<Vec<_>>>()?;
    let overlay = Overlay {
        lowers,
        upper: layers.upper,
        work: layers.work,
        label: layers.label,
        options: layers.options,
    };
    let spare = at.stage.dir.join("layers");
    make_dir(&spare)?;
    let points = MountPoints::new(&spare, at.stage.namespace).leaving_layers();
    let (mut mount, given) = kernel.overlay(overlay, points)?;
    // Images may bring device nodes; those of the container are made for it elsewhere.
    kernel.set_attributes(&mut mount, &Attributes { flags: Flags::NODEV, ..Attributes::default() })?;
    kernel.attach(mount, Target::Path(at.point))?;
    Ok(if users.is_some() { LayersMapped::Idmapped(given) } else { LayersMapped::AsOnDisk(given) })
}

pub(super) fn lower(kernel: &dyn Kernel, layer: &Path, users: Option<&UsernsFd>) -> Result<DetachedMount> {
    let mut clone = kernel.clone_mount(Source::Path(layer), Submounts::Without)?;
    let attributes = Attributes { idmap: users, access: Access::ReadOnly, ..Attributes::default() };
    match kernel.set_attributes(&mut clone, &attributes) {
        Ok(()) => Ok(clone),
        Err(cause) if users.is_some() => {
            Err(Error::LayerNotIdmappable { layer: layer.to_owned(), cause: Box::new(cause) })
        }
        Err(error) => Err(error.into()),
    }
}

/// The overlay's root has the owner and mode of the upper directory, which is not idmapped.
pub(super) fn give_to_root(upper: &Path, ids: Option<&IdMappings>, like: &Path) -> Result<()> {
    let failed = |what: &'static str, path: &Path| {
        let path = path.to_owned();
        move |cause| Error::File { what, path, cause }
    };
    let mode = fs::symlink_metadata(like).map_err(failed("look at", like))?.permissions().mode();
    if let Some(ids) = ids {
        let uid = ids.host_user(0).ok_or(Error::RootUnmapped { kind: "user" })?;
        let gid = ids.host_group(0).ok_or(Error::RootUnmapped { kind: "group" })?;
        chown(upper, Some(uid), Some(gid)).map_err(failed("give to the container's root", upper))?;
    }
    fs::set_permissions(upper, Permissions::from_mode(mode & 0o7777))
        .map_err(failed("set the mode of", upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kernel_that_cannot_map_is_a_reason_to_change_owners() {
        let overlay = |errno| {
            let step = kernel::OverlayStep::Create;
            Error::from(kernel::Error::Overlay { upper: "/u".into(), step, errno, log: Vec::new() })
        };
        assert!(cannot_map(&overlay(Errno::INVAL)) && cannot_map(&overlay(Errno::OPNOTSUPP)));
        for errno in [Errno::NOSPC, Errno::NOENT, Errno::IO, Errno::BUSY] {
            assert!(!cannot_map(&overlay(errno)), "{errno}");
        }
    }
}
