use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use ids::{ContainerId, IdMapping};
use kernel::{
    Access, Attributes, DetachedMount, Flags, Kernel, LayersGiven, MountPoints, Overlay, Source, Submounts,
    Target, UsernsFd,
};

use super::{Stage, make_dir};
use crate::error::{Error, Result};
use crate::start::{IdLines, Start};

/// How an image's files came to be the pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayersMapped {
    /// They are the host's: the pod has its IDs.
    AsOnDisk(LayersGiven),
    /// Each layer is seen through the pod's maps.
    Idmapped(LayersGiven),
}

/// The container's `/`, attached below the stage.
pub(super) fn make(
    kernel: &dyn Kernel,
    start: &Start,
    users: Option<&UsernsFd>,
    stage: Stage<'_>,
) -> Result<(PathBuf, LayersMapped)> {
    let rootfs = &start.rootfs;
    let top = rootfs.lowers.first().ok_or_else(|| Error::NoLayers { id: start.id.clone() })?;
    // The overlay's root has the owner and mode of the upper directory, which is not idmapped.
    give_to_root(&rootfs.upper, start.ids.as_ref(), top)?;
    let layer = |layer: &PathBuf| lower(kernel, layer, users);
    let lowers = rootfs.lowers.iter().map(layer).collect::<Result<Vec<_>>>()?;
    let overlay = Overlay { lowers, upper: &rootfs.upper, work: &rootfs.work };
    let (point, spare) = (stage.dir.join("rootfs"), stage.dir.join("layers"));
    make_dir(&point)?;
    make_dir(&spare)?;
    let points = MountPoints { dir: &spare, namespace: stage.namespace };
    let (mut mount, given) = kernel.overlay(overlay, points)?;
    // Images may bring device nodes; those of the container are made for it elsewhere.
    kernel.set_attributes(&mut mount, &Attributes { flags: Flags::NODEV, ..Attributes::default() })?;
    kernel.attach(mount, Target::Path(&point))?;
    let mapped = if users.is_some() { LayersMapped::Idmapped(given) } else { LayersMapped::AsOnDisk(given) };
    Ok((point, mapped))
}

fn lower(kernel: &dyn Kernel, layer: &Path, users: Option<&UsernsFd>) -> Result<DetachedMount> {
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

fn give_to_root(upper: &Path, ids: Option<&IdLines>, like: &Path) -> Result<()> {
    let failed = |what: &'static str, path: &Path| {
        let path = path.to_owned();
        move |cause| Error::File { what, path, cause }
    };
    let mode = fs::symlink_metadata(like).map_err(failed("look at", like))?.permissions().mode();
    if let Some(ids) = ids {
        let uid = root_of(&ids.uids).ok_or(Error::RootUnmapped { kind: "user" })?;
        let gid = root_of(&ids.gids).ok_or(Error::RootUnmapped { kind: "group" })?;
        chown(upper, Some(uid), Some(gid)).map_err(failed("give to the container's root", upper))?;
    }
    fs::set_permissions(upper, Permissions::from_mode(mode & 0o7777))
        .map_err(failed("set the mode of", upper))
}

/// The host ID of the container's ID 0.
fn root_of(lines: &[IdMapping]) -> Option<u32> {
    lines.iter().find(|line| line.container() == ContainerId::ROOT).map(|line| line.host().first())
}
