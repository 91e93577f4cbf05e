//! Control groups, whichever of the kernel's two versions of them this host has, or both at once.
//!
//! - [`Hierarchies`]: what is mounted, found by looking.
//! - [`Group`]: one group, which has a directory of the same path in each hierarchy: made, limited, read,
//!   emptied and removed.
//! - [`Eager`]: the kernel's wait before a move into a group, begun early.

mod eager;
mod files;
mod find;
mod kill;
mod limits;
mod make;
mod stats;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

pub use eager::Eager;
pub use find::{Hierarchies, Version};
pub use stats::{Memory, Stats};

use crate::error::{Error, Result};
use find::Hierarchy;

/// A control group, there or not.
#[derive(Debug, Clone)]
pub struct Group {
    /// As it was given, for words.
    path: PathBuf,
    places: Vec<Place>,
}

/// A group's directory in one hierarchy.
#[derive(Debug, Clone)]
struct Place {
    hierarchy: Hierarchy,
    dir: PathBuf,
}

impl Group {
    /// The group at `path` from the root of each hierarchy. Nothing is made or looked at yet.
    pub fn open(hierarchies: &Hierarchies, path: &str) -> Result<Self> {
        let refused = |why| Error::CgroupPath { path: path.to_owned(), why };
        let below = Path::new(path.trim_start_matches('/'));
        if below.components().next().is_none() {
            return Err(refused("it is the root, which belongs to nobody"));
        }
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(refused("it must not have . or .. in it"));
        }
        let place =
            |hierarchy: &Hierarchy| Place { hierarchy: hierarchy.clone(), dir: hierarchy.root.join(below) };
        Ok(Self { path: path.into(), places: hierarchies.all().iter().map(place).collect() })
    }

    /// Whether any hierarchy has it.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.places.iter().any(|place| place.dir.is_dir())
    }

    /// Its directories, one in each hierarchy.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().map(|place| place.dir.as_path())
    }

    /// What limits the devices that its processes may use.
    #[must_use]
    pub fn devices(&self) -> Option<Devices<'_>> {
        let unified = self.places.iter().find(|place| place.hierarchy.kind == find::Kind::Unified);
        let split = self.with("devices").map(|place| Devices::Controller(&place.dir));
        split.or_else(|| unified.map(|place| Devices::Program(&place.dir)))
    }

    /// Its directory in the hierarchy with this controller.
    fn with(&self, controller: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.has(controller))
    }
}

/// What limits the devices that the processes of a group may use, with the group's directory there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices<'a> {
    /// The files of a controller (version 1).
    Controller(&'a Path),
    /// A BPF program that is attached to it (version 2).
    Program(&'a Path),
}

impl Place {
    fn has(&self, controller: &str) -> bool {
        self.hierarchy.controllers.iter().any(|has| has == controller)
    }
}
