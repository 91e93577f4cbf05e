use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::find::{Hierarchies, Hierarchy, Kind};

/// A cgroup path with its directory in each hierarchy. The directories need not exist: [`Group::make`] creates them.
#[derive(Debug, Clone)]
pub struct Group {
    /// The path as the caller gave it, for messages.
    pub(crate) path: PathBuf,
    pub(crate) places: Vec<Place>,
}

/// A group's directory in one hierarchy.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) hierarchy: Hierarchy,
    pub(crate) dir: PathBuf,
}

impl Group {
    /// The group at `path` below the root of each hierarchy. This does no I/O. Fails with [`Error::Path`] for the root
    /// itself and for a path with `.` or `..`.
    pub fn open(hierarchies: &Hierarchies, path: &str) -> Result<Self> {
        let refused = |why| Error::Path { path: path.to_owned(), why };
        let below = Path::new(path.trim_start_matches('/'));
        if below.components().next().is_none() {
            return Err(refused("it is the root of the hierarchy, which is not ours to change"));
        }
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(refused("it must not contain . or .."));
        }
        let place =
            |hierarchy: &Hierarchy| Place { hierarchy: hierarchy.clone(), dir: hierarchy.root.join(below) };
        Ok(Self { path: path.into(), places: hierarchies.all().iter().map(place).collect() })
    }

    /// Whether its directory exists in any hierarchy.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.places.iter().any(|place| place.dir.is_dir())
    }

    /// Its directories, one in each hierarchy.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().map(|place| place.dir.as_path())
    }

    /// The mechanism that limits which devices its processes may use; `None` if the host has neither the `devices`
    /// controller nor the unified hierarchy.
    #[must_use]
    pub fn devices(&self) -> Option<Devices<'_>> {
        let unified = self.places.iter().find(|place| place.hierarchy.kind == Kind::Unified);
        let split = self.with("devices").map(|place| Devices::Controller(&place.dir));
        split.or_else(|| unified.map(|place| Devices::Program(&place.dir)))
    }

    /// Its directory in the hierarchy with this controller.
    pub(crate) fn with(&self, controller: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.has(controller))
    }
}

/// The mechanism that limits the devices of a group, with the group's directory in that hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices<'a> {
    /// The files of the `devices` controller (cgroup v1).
    Controller(&'a Path),
    /// A BPF program that is attached to the directory (cgroup v2).
    Program(&'a Path),
}

impl Place {
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.hierarchy.controllers.iter().any(|has| has == controller)
    }
}
