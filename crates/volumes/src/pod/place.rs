//! What a container is to see, found and held.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use kernel::{Dir, Kind, Node};

use super::dir::PodDir;
use super::half_made::{self, like_root};
use super::set_up::numbers_of;
use super::users::Users;
use super::{path_of, usable};
use crate::error::{Error, Result};
use crate::layout::MadeKind;
use crate::record::{self, HalfMade, MadeVolume, MountMark, Numbers, Record};
use crate::sub_path::{Missing, SubPath, resolve};
use crate::wanted::{MountAccess, Source, Wanted, WantedMount, WantedVolume};
use types::VolumeName;

/// What a container is to see.
#[derive(Debug)]
pub(crate) struct Place {
    held: Held,
    pub(crate) kind: Kind,
    /// Whether it is to be idmapped.
    pub(crate) idmapped: bool,
    /// Whether it is an image's.
    pub(crate) image: bool,
    /// Whether it can be written through.
    pub(crate) access: MountAccess,
}

#[derive(Debug)]
enum Held {
    Dir(Dir),
    Node(Node),
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Dir(dir) => dir.as_fd(),
            Self::Node(node) => node.as_fd(),
        }
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

impl Place {
    pub(crate) fn path(&self) -> PathBuf {
        path_of(self.as_fd())
    }
}

/// A pod whose volumes are set up.
pub(crate) struct Finder<'a> {
    pub(crate) pod: PodDir,
    pub(crate) record: Record,
    pub(crate) wanted: &'a Wanted,
    pub(crate) users: &'a Users<'a>,
}

impl Finder<'_> {
    /// A volume that the node made: its directory, proven to be it.
    pub(crate) fn made(&self, name: &VolumeName) -> Result<(Dir, &MadeVolume)> {
        let made = self.record.volume(name).filter(|made| usable(made.state));
        let made = made.ok_or_else(|| self.not_set_up(name))?;
        self.record.refuse_others(made, &record::Users::of(&self.wanted.users))?;
        let dir = self.pod.open(&made.kind.volume(name))?;
        let found = dir.stat()?;
        let ours = match made.mount {
            Some(mark) => MountMark::of(&dir, dir.path())? == mark,
            None => !found.is_mount_root,
        };
        if ours {
            return Ok((dir, made));
        }
        let table = kernel::MountTable::read()?;
        Err(match table.by_id(found.mount_id).filter(|_| found.is_mount_root) {
            Some(other) => super::remove::foreign(other),
            None => self.not_set_up(name),
        })
    }

    /// What this mount shows. A part of a volume that is missing is made.
    pub(crate) fn place(&mut self, mount: &WantedMount) -> Result<Place> {
        let volume = self.wanted.volume(&mount.volume).ok_or_else(|| Error::NoSuchVolume {
            pod: self.wanted.pod.clone(),
            volume: mount.volume.clone(),
        })?;
        // Before the next ones are noted down: what a call that was killed has left is forgotten with them.
        half_made::repair(&self.pod, &mut self.record)?;
        let (root, numbers) = self.root(volume)?;
        let stacked = self.record.volume(&volume.name).is_some_and(|made| made.kind == MadeKind::Image);
        let held = match &mount.sub_path {
            None => root,
            Some(path) => Held::Node(self.part(volume, root, path, numbers)?),
        };
        let kind = match &held {
            Held::Dir(_) => Kind::Directory,
            Held::Node(node) => node.stat()?.kind,
        };
        let idmapped = numbers == Numbers::Containers
            && volume.owners == plan::Owners::Idmapped
            && self.users.idmap().is_some()
            && !stacked;
        let access = volume.source.access(mount.access);
        Ok(Place { held, kind, idmapped, image: matches!(volume.source, Source::Image(_)), access })
    }

    fn root(&self, volume: &WantedVolume) -> Result<(Held, Numbers)> {
        match &volume.source {
            Source::HostPath(path) => {
                let node = path.find(&volume.name)?.ok_or_else(|| self.not_set_up(&volume.name))?;
                Ok((Held::Node(node), numbers_of(volume)))
            }
            Source::Image(image) if image.layers.len() < 2 => match image.layers.first() {
                Some(layer) => Ok((Held::Dir(Dir::open(layer)?), numbers_of(volume))),
                None => Err(Error::NoLayers { volume: volume.name.clone() }),
            },
            _ => {
                let (dir, made) = self.made(&volume.name)?;
                Ok((Held::Dir(dir), made.numbers))
            }
        }
    }

    fn part(&mut self, volume: &WantedVolume, root: Held, path: &SubPath, numbers: Numbers) -> Result<Node> {
        let root = match root {
            Held::Dir(dir) => dir,
            Held::Node(node) => node.open_dir()?,
        };
        if matches!(volume.source, Source::Image(_)) {
            return resolve(&volume.name, &root, path, Missing::Refuse);
        }
        let like = like_root(&root, self.users.root(numbers)?)?;
        let is_host = matches!(volume.source, Source::HostPath(_));
        let real_root = path_of(root.as_fd());
        let owner = like.owner.map_or((0, 0), |owner| (owner.uid, owner.gid));
        let mut announce = |there: &Dir, rest: &Path| {
            let there = path_of(there.as_fd());
            let (host, below) =
                if is_host { (Some(there), PathBuf::new()) } else { (None, inside(&real_root, &there)?) };
            self.record.half_made.push(HalfMade {
                volume: volume.name.clone(),
                host,
                below,
                path: rest.to_owned(),
                mode: like.mode,
                owner,
            });
            self.record.write(self.pod.dir())
        };
        let missing = Missing::Make { like, announce: &mut announce };
        let node = resolve(&volume.name, &root, path, missing)?;
        if !self.record.half_made.is_empty() {
            self.record.half_made.clear();
            self.record.write(self.pod.dir())?;
        }
        Ok(node)
    }

    fn not_set_up(&self, volume: &VolumeName) -> Error {
        Error::NotSetUp { pod: self.wanted.pod.clone(), volume: volume.clone() }
    }
}

/// A directory's real path below the volume's. It was found in the volume: elsewhere, it was moved.
fn inside(volume: &Path, dir: &Path) -> Result<PathBuf> {
    let moved = |_| kernel::Error::Swapped { path: dir.to_owned() };
    Ok(dir.strip_prefix(volume).map_err(moved)?.to_owned())
}
