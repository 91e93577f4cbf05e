//! Parts of volumes at paths of their own, for runtimes that take paths.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use kernel::{
    Attributes, Dir, Kernel, Kind, LastLink, MountTable, Propagation, Source, Submounts, Target, Within,
};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::dir::PodDir;
use super::homes::Homes;
use super::place::Place;
use super::remove::Removal;
use crate::error::{Error, Result};
use crate::record::{MadeSubPath, MountMark, Record};
use crate::wanted::WantedMount;

/// What it takes to mount a part of a volume.
pub(crate) struct SubMount<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) homes: &'a Homes,
    pub(crate) pod: &'a PodDir,
}

impl SubMount<'_> {
    /// Mounts the node that is held, and says where. A mount that shows this very node already is kept;
    /// one that shows another is replaced.
    pub(crate) fn make(&self, record: &mut Record, mount: &WantedMount, place: &Place) -> Result<PathBuf> {
        let below = crate::layout::sub_path(&mount.volume, &mount.container, mount.index);
        let point = self.pod.path(&below);
        if self.is_there(record, mount, place)? {
            return Ok(point);
        }
        let removal = Removal { kernel: self.kernel, homes: self.homes, pod: self.pod };
        removal.sub_paths(record, &|made| is_of(made, mount))?;
        if let Some(found) = MountTable::read()?.at(&point) {
            return Err(super::remove::foreign(found));
        }
        let mut clone = self.kernel.clone_mount(Source::Node(place.as_fd()), Submounts::Included)?;
        // It must not be a peer of its original: unmounting it would unmount what lies below the original.
        let attributes = Attributes {
            submounts: Submounts::Included,
            propagation: Some(Propagation::Slave),
            ..Attributes::default()
        };
        self.kernel.set_attributes(&mut clone, &attributes)?;
        record.sub_paths.push(MadeSubPath {
            volume: mount.volume.clone(),
            container: mount.container.clone(),
            index: mount.index,
            mount: MountMark::of(&clone, &point)?,
        });
        record.write(self.pod.dir())?;
        let target = self.target(&below, place.kind)?;
        self.kernel.attach(clone, Target::Node(target.as_fd()))?;
        Ok(point)
    }

    fn is_there(&self, record: &Record, mount: &WantedMount, place: &Place) -> Result<bool> {
        let Some(made) = record.sub_paths.iter().find(|made| is_of(made, mount)) else { return Ok(false) };
        let below = made.point();
        if !made.mount.is_at(&MountTable::read()?, &self.pod.path(&below)) {
            return Ok(false);
        }
        let shown = self.pod.dir().node(&below, Within::NoLinks, LastLink::Keep)?;
        Ok(inode(shown.as_fd(), shown.path())? == inode(place.as_fd(), shown.path())?)
    }

    /// An empty directory for a directory, an empty file for anything else.
    fn target(&self, below: &Path, kind: Kind) -> Result<kernel::Node> {
        let above = self.pod.make(below.parent().unwrap_or(Path::new("")))?;
        let name = below.file_name().unwrap_or_default();
        if kind == Kind::Directory {
            above.make_dirs(Path::new(name), super::dir::OURS)?;
        } else {
            empty_file(&above, Path::new(name))?;
        }
        Ok(above.node(Path::new(name), Within::NoLinks, LastLink::Keep)?)
    }
}

fn is_of(made: &MadeSubPath, mount: &WantedMount) -> bool {
    (&made.volume, &made.container, made.index) == (&mount.volume, &mount.container, mount.index)
}

fn inode(fd: std::os::fd::BorrowedFd<'_>, path: &Path) -> Result<(u64, u64)> {
    let found = rustix::fs::fstat(fd).map_err(|errno| Error::io("look at", path, errno))?;
    Ok((found.st_dev, found.st_ino))
}

fn empty_file(dir: &Dir, name: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(dir, name, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::io("make", &dir.path().join(name), errno)),
    }
}
