use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kernel::{Attributes, Dir, Flags, Kernel, Propagation, Source, Submounts, Target, UsernsFd, Within};
use rustix::io::Errno;

use super::copy::{Copied, copy};
use super::owner::NewOwner;
use super::{LayersMapped, Stage, image, make_dir};
use crate::container_spec::{ContainerSpec, ImageVolume};
use crate::error::{Error, Result};

/// How the files of volumes become the container's: as those of its image do.
#[derive(Clone, Copy)]
pub(super) struct Users<'a> {
    pub(super) namespace: Option<&'a UsernsFd>,
    pub(super) layers: LayersMapped,
}

/// The image's volumes, filled, and attached below the stage in their order.
pub(super) fn make(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    users: Users<'_>,
    stage: Stage<'_>,
) -> Result<Vec<PathBuf>> {
    if start.volumes.is_empty() {
        return Ok(Vec::new());
    }
    let owner = match (users.layers, &start.ids) {
        (LayersMapped::Chowned(_), Some(ids)) => NewOwner::Mapped(ids),
        _ => NewOwner::Same,
    };
    let dir = stage.dir.join("volumes");
    make_dir(&dir)?;
    let mut copied = Copied::default();
    let one = |(number, volume): (usize, &ImageVolume)| {
        if !there(&volume.source)? {
            let label = start.rootfs.label.as_deref();
            let from = From { image: &image::attach(kernel, start, stage)?, owner, label };
            fill(from, volume, &mut copied)?;
        }
        attach(kernel, volume, users, &dir.join(number.to_string()))
    };
    start.volumes.iter().enumerate().map(one).collect()
}

/// A volume has its name only when all is in it.
fn there(source: &Path) -> Result<bool> {
    match fs::symlink_metadata(source) {
        Ok(found) => Ok(found.is_dir()),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(Error::File { what: "look at", path: source.to_owned(), cause }),
    }
}

/// What a volume is filled from, and whose it becomes.
#[derive(Clone, Copy)]
struct From<'a> {
    image: &'a Path,
    owner: NewOwner<'a>,
    label: Option<&'a str>,
}

/// Filled beside its place, and put there when it is whole: what a crash leaves is begun anew.
fn fill(from: From<'_>, volume: &ImageVolume, copied: &mut Copied) -> Result<()> {
    let From { image, owner, label } = from;
    let failed = |what: &'static str, path: &Path| {
        let path = path.to_owned();
        move |cause| Error::File { what, path, cause }
    };
    let (Some(parent), Some(name)) = (volume.source.parent(), volume.source.file_name()) else {
        let no_name = io::Error::from(Errno::INVAL);
        return Err(failed("make", &volume.source)(no_name));
    };
    fs::create_dir_all(parent).map_err(failed("make", parent))?;
    let mut beside = name.to_owned();
    beside.push(".filling");
    Dir::open(parent)?.remove_tree(&beside)?;
    let half = parent.join(&beside);
    make_dir(&half)?;
    match directory(image, &volume.target)? {
        Some(from) => copy(&from, &half, owner, copied)?,
        None => empty(&half, owner)?,
    }
    if let Some(label) = label {
        // Where no labels are kept, none keeps the container out.
        kernel::relabel(&half, label)?;
    }
    durable::sync_dir(&half)?;
    Ok(durable::rename(&half, &volume.source)?)
}

/// What the image has there; its links lead nowhere outside of it.
fn directory(image: &Path, target: &Path) -> Result<Option<PathBuf>> {
    use std::os::fd::{AsFd, AsRawFd};
    let root = Dir::open(image)?;
    match root.open_below(target, Within::AsRoot) {
        Ok(dir) => {
            let link = format!("/proc/thread-self/fd/{}", dir.as_fd().as_raw_fd());
            let path = fs::read_link(&link);
            path.map(Some).map_err(|cause| Error::File { what: "look at", path: target.to_owned(), cause })
        }
        Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => Ok(None),
        Err(kernel::Error::Below { errno: Errno::NOTDIR, .. }) => Err(Error::UnfitFile {
            file: target.to_owned(),
            why: "it is not a directory, and cannot be a volume",
        }),
        Err(error) => Err(error.into()),
    }
}

fn empty(dir: &Path, owner: NewOwner<'_>) -> Result<()> {
    let failed = |cause| Error::File { what: "give to the container's root", path: dir.to_owned(), cause };
    let root = owner.of(kernel::Owner::ROOT, Path::new(""))?;
    std::os::unix::fs::chown(dir, Some(root.uid), Some(root.gid)).map_err(failed)?;
    fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(failed)
}

fn attach(kernel: &dyn Kernel, volume: &ImageVolume, users: Users<'_>, point: &Path) -> Result<PathBuf> {
    let mut clone = kernel.clone_mount(Source::Path(&volume.source), Submounts::Without)?;
    let idmap = users.namespace.filter(|_| matches!(users.layers, LayersMapped::Idmapped(_)));
    // As little as its image's other files can its devices be opened.
    let flags = Flags::NODEV;
    let all = Attributes { idmap, propagation: Some(Propagation::Private), flags, ..Attributes::default() };
    kernel.set_attributes(&mut clone, &all).map_err(|cause| match idmap {
        Some(_) => Error::BindNotIdmappable {
            bind: volume.source.clone(),
            target: volume.target.clone(),
            cause: Box::new(cause),
        },
        None => cause.into(),
    })?;
    make_dir(point)?;
    kernel.attach(clone, Target::Path(point))?;
    Ok(point.to_owned())
}
