//! A volume for a container: a mount to attach, or a path with mount options.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ids::{IdKind, IdMapping};
use kernel::{
    Access, Attributes, DetachedMount, Dir, DirMode, Flags, Kernel, Kind, LastLink, Owner, Source as From,
    Submounts, Target, Within,
};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, openat};
use rustix::io::Errno;

use types::MountPropagation;

use crate::error::{Error, Result};
use crate::pod::place::Place;
use crate::pod::users::Users;
use crate::sub_path::SubPath;
use crate::wanted::{MountAccess, Relabel, Source, Wanted, WantedMount};

/// What a container sees of a volume: a detached mount, for a caller that has the container's root filesystem in a
/// mount namespace of its own. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Presented {
    /// The mount point in the container.
    pub path: PathBuf,
    mount: DetachedMount,
    kind: Kind,
}

/// A mount for a runtime that mounts by path; the fields of a CRI mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    /// The mount point in the container.
    pub container_path: PathBuf,
    /// The source; empty for an image.
    pub host_path: PathBuf,
    /// Whether it is read-only.
    pub access: MountAccess,
    /// Its mount propagation.
    pub propagation: MountPropagation,
    /// Whether its files are to be relabelled.
    pub relabel: Relabel,
    /// The map of user IDs that it is idmapped with; none if it is not.
    pub uid_mappings: Vec<IdMapping>,
    /// The same for group IDs.
    pub gid_mappings: Vec<IdMapping>,
    /// The image, for an image volume.
    pub image: Option<String>,
    /// The part of the image.
    pub image_sub_path: Option<SubPath>,
}

impl Presented {
    pub(crate) fn of(
        place: &Place,
        mount: &WantedMount,
        kernel: &dyn Kernel,
        users: &Users<'_>,
    ) -> Result<Self> {
        let mut clone = kernel.clone_mount(From::Node(place.as_fd()), Submounts::Included)?;
        let read_only = place.image || place.access == MountAccess::RecursiveReadOnly;
        let all = Attributes {
            idmap: users.idmap().filter(|_| place.idmapped),
            access: if read_only { Access::ReadOnly } else { Access::ReadWrite },
            submounts: Submounts::Included,
            propagation: Some(mount.propagation.into()),
            flags: if place.image { Flags::NOEXEC } else { Flags::NONE },
        };
        kernel.set_attributes(&mut clone, &all)?;
        if place.access == MountAccess::ReadOnly {
            // Mounts below keep their access: that is the meaning of `readOnly` without `recursiveReadOnly`.
            let top = Attributes { access: Access::ReadOnly, ..Attributes::default() };
            kernel.set_attributes(&mut clone, &top)?;
        }
        Ok(Self { path: mount.path.clone(), mount: clone, kind: place.kind })
    }

    /// The mount itself.
    #[must_use]
    pub fn into_mount(self) -> DetachedMount {
        self.mount
    }

    /// Attaches it in a container's root filesystem. Links there are resolved as in the container: none leads out of
    /// it. A missing mount point is created and given to `owner`.
    pub fn attach(self, kernel: &dyn Kernel, tree: &Dir, owner: Owner) -> Result<()> {
        let below = self.path.strip_prefix("/").unwrap_or(&self.path);
        let find = || tree.node(below, Within::AsRoot, LastLink::Follow);
        let target = match find() {
            Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {
                make_point(tree, below, self.kind, owner)?;
                find()?
            }
            found => found?,
        };
        Ok(kernel.attach(self.mount, Target::Node(target.as_fd()))?)
    }
}

impl HostMount {
    /// Runtimes implement image volumes themselves; they resolve the subPath, too.
    pub(crate) fn of_image(wanted: &Wanted, mount: &WantedMount) -> Option<Self> {
        let Source::Image(image) = &wanted.volume(&mount.volume)?.source else { return None };
        let all = Self::at(PathBuf::new(), true, wanted, mount);
        let (image, image_sub_path) = (Some(image.reference.clone()), mount.sub_path.clone());
        Some(Self { image, image_sub_path, access: MountAccess::ReadOnly, ..all })
    }

    pub(crate) fn at(path: PathBuf, idmapped: bool, wanted: &Wanted, mount: &WantedMount) -> Self {
        let lines = |kind| wanted.users.lines(kind).filter(|_| idmapped).unwrap_or_default();
        let source = wanted.volume(&mount.volume).map(|volume| &volume.source);
        Self {
            container_path: mount.path.clone(),
            host_path: path,
            access: source.map_or(mount.access, |source| source.access(mount.access)),
            propagation: mount.propagation,
            relabel: mount.relabel,
            uid_mappings: lines(IdKind::Uid),
            gid_mappings: lines(IdKind::Gid),
            image: None,
            image_sub_path: None,
        }
    }
}

/// Makes an empty directory or file with the directories on the way to it, all inside the tree.
fn make_point(tree: &Dir, below: &Path, kind: Kind, owner: Owner) -> Result<()> {
    let (dirs, file) = match (kind, below.parent(), below.file_name()) {
        (Kind::Directory, _, _) | (_, None, _) | (_, _, None) => (below, None),
        (_, Some(above), Some(name)) => (above, Some(name)),
    };
    let above = make_dirs(tree, dirs, owner)?;
    file.map_or(Ok(()), |name| make_file(&above, name, owner))
}

fn make_dirs(tree: &Dir, below: &Path, owner: Owner) -> Result<Dir> {
    for there in below.ancestors() {
        match tree.open_below(there, Within::AsRoot) {
            Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {}
            found => {
                let rest = below.strip_prefix(there).unwrap_or(Path::new(""));
                return Ok(found?.make_dirs(rest, DirMode { mode: 0o755, owner: Some(owner) })?);
            }
        }
    }
    Ok(tree.open_below(Path::new(""), Within::AsRoot)?)
}

fn make_file(dir: &Dir, name: &OsStr, owner: Owner) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |errno| Error::io("make", &dir.path().join(name), errno);
    match openat(dir, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => {
            fchown(&file, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid))).map_err(failed)
        }
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}
