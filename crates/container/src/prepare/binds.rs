use std::fs::{self, File};
use std::path::{Path, PathBuf};

use kernel::{Access, Attributes, DetachedMount, Flags, Kernel, Source, Submounts, Target, UsernsFd};

use types::MountPropagation;

use super::{FromHost, Stage, make_dir, shown, user_namespace};
use crate::container_spec::{Bind, ContainerSpec, MountSpec, ReadOnly};
use crate::error::{Error, Result};

/// The binds and images of a container, attached below the stage in their order.
pub(super) fn make(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    mut held: FromHost,
    stage: Stage<'_>,
) -> Result<Vec<PathBuf>> {
    let dir = stage.dir.join("binds");
    make_dir(&dir)?;
    let mut made = Vec::new();
    for mount in &start.mounts {
        let point = dir.join(made.len().to_string());
        match mount {
            MountSpec::New(_) => continue,
            MountSpec::Image(image) => {
                let shown = shown::Shown { image, label: start.rootfs.label.as_deref() };
                shown::attach(kernel, shown, &point, stage)?;
            }
            MountSpec::Bind(bind) => {
                let clone = match bind.propagation {
                    MountPropagation::Bidirectional => held.take(bind)?,
                    MountPropagation::None | MountPropagation::HostToContainer => {
                        kernel.clone_mount(Source::Path(&bind.source), Submounts::Included)?
                    }
                };
                let users = bind.ids.as_ref().map(|ids| user_namespace(kernel, ids)).transpose()?;
                attach(kernel, bind, Cloned { mount: clone, users: users.as_deref() }, &point)?;
            }
        }
        made.push(point);
    }
    Ok(made)
}

/// The binds among a container's mounts.
pub(super) fn all(start: &ContainerSpec) -> impl Iterator<Item = &Bind> {
    start.mounts.iter().filter_map(|mount| match mount {
        MountSpec::Bind(bind) => Some(bind),
        MountSpec::New(_) | MountSpec::Image(_) => None,
    })
}

/// A clone of what a bind is of, and the namespace whose maps it is to be seen through.
pub(super) struct Cloned<'a> {
    pub(super) mount: DetachedMount,
    pub(super) users: Option<&'a UsernsFd>,
}

/// Attaches a clone of what a bind is of at `point`, which is made for it.
pub(super) fn attach(kernel: &dyn Kernel, bind: &Bind, of: Cloned<'_>, point: &Path) -> Result<()> {
    let Cloned { mount: mut clone, users } = of;
    let all = Attributes {
        idmap: users,
        access: if bind.read_only == ReadOnly::Recursive { Access::ReadOnly } else { Access::ReadWrite },
        submounts: Submounts::Included,
        propagation: Some(bind.propagation.into()),
        flags: Flags::NONE,
    };
    kernel.set_attributes(&mut clone, &all).map_err(|cause| match users {
        Some(_) => Error::BindNotIdmappable {
            bind: bind.source.clone(),
            target: bind.target.clone(),
            cause: Box::new(cause),
        },
        None => cause.into(),
    })?;
    make_point(point, &bind.source)?;
    Ok(kernel.attach(clone, Target::Path(point))?)
}

/// A mount point of the same kind as what is mounted there.
fn make_point(point: &Path, like: &Path) -> Result<()> {
    let metadata =
        fs::metadata(like).map_err(|cause| Error::File { what: "look at", path: like.to_owned(), cause })?;
    if metadata.is_dir() { make_dir(point) } else { make_file(point) }
}

/// A mount point for anything but a directory.
pub(super) fn make_file(point: &Path) -> Result<()> {
    File::create_new(point).map(drop).map_err(|cause| Error::File {
        what: "make",
        path: point.to_owned(),
        cause,
    })
}
