use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel::{MountEntry, MountTable};

use crate::error::{Error, Result};
use crate::files;
use crate::version::Version;

/// Where cgroups are mounted by convention. Mounts of the same hierarchy elsewhere are ignored.
const USUAL: &str = "/sys/fs/cgroup";

/// Mount options of a version 1 hierarchy that are not names of controllers.
const NO_CONTROLLERS: [&str; 7] =
    ["rw", "ro", "xattr", "clone_children", "noprefix", "cpuset_v2_mode", "seclabel"];

/// All cgroup hierarchies of this host. [`Group::open`](crate::Group::open) needs them.
#[derive(Debug, Clone)]
pub struct Hierarchies(Vec<Hierarchy>);

/// One cgroup hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) root: PathBuf,
    /// The kernel's names of its controllers; `name=…` for a named hierarchy without controllers.
    pub(crate) controllers: Vec<String>,
    pub(crate) kind: Kind,
}

/// Which rules a hierarchy follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Split,
    Unified,
}

impl Hierarchies {
    /// Reads the mount table of this process. Fails with [`Error::NoCgroups`] if no hierarchy is mounted.
    pub fn find() -> Result<Self> {
        Self::from_table(&MountTable::read()?)
    }

    /// The hierarchies in a mount table.
    fn from_table(table: &MountTable) -> Result<Self> {
        let usual = |mount: &&MountEntry| mount.point.starts_with(USUAL);
        let (here, elsewhere): (Vec<_>, Vec<_>) = table.iter().partition(usual);
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for mount in here.into_iter().chain(elsewhere) {
            if let Some(hierarchy) = hierarchy(mount)?
                && seen.insert(mount.device)
            {
                found.push(hierarchy);
            }
        }
        if found.is_empty() { Err(Error::NoCgroups) } else { Ok(Self(found)) }
    }

    /// The cgroup version of this host.
    #[must_use]
    pub fn version(&self) -> Version {
        let unified = self.0.iter().any(|hierarchy| hierarchy.kind == Kind::Unified);
        let split = self.0.iter().any(|hierarchy| hierarchy.kind == Kind::Split);
        match (split, unified) {
            (true, true) => Version::Hybrid,
            (true, false) => Version::V1,
            (false, _) => Version::V2,
        }
    }

    /// Whether any hierarchy has this controller, such as `memory`.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.0.iter().any(|hierarchy| hierarchy.controllers.iter().any(|has| has == controller))
    }

    pub(crate) fn all(&self) -> &[Hierarchy] {
        &self.0
    }
}

fn hierarchy(mount: &MountEntry) -> Result<Option<Hierarchy>> {
    let root = mount.point.clone();
    Ok(match mount.filesystem.as_str() {
        "cgroup2" => Some(Hierarchy { controllers: controllers_of(&root)?, root, kind: Kind::Unified }),
        "cgroup" => Some(Hierarchy { controllers: split_controllers(mount), root, kind: Kind::Split }),
        _ => None,
    })
}

/// Controllers of the unified hierarchy's root. (`cpuacct` is part of its `cpu`, and always counted.)
fn controllers_of(root: &Path) -> Result<Vec<String>> {
    let text = files::read(&root.join("cgroup.controllers"))?.unwrap_or_default();
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn split_controllers(mount: &MountEntry) -> Vec<String> {
    let named = |option: &&String| {
        !NO_CONTROLLERS.contains(&option.as_str()) && (!option.contains('=') || option.starts_with("name="))
    };
    mount.super_options.iter().filter(named).cloned().collect()
}

#[cfg(test)]
impl Hierarchies {
    /// A tree of plain files that looks like the unified hierarchy.
    pub(crate) fn pretended(root: &Path) -> Self {
        let controllers = controllers_of(root).unwrap();
        Self(vec![Hierarchy { root: root.to_owned(), controllers, kind: Kind::Unified }])
    }

    /// The same for one of version 1.
    pub(crate) fn pretended_split(root: &Path, controllers: &[&str]) -> Self {
        let hierarchy = |controller: &&str| Hierarchy {
            root: root.join(controller),
            controllers: vec![(*controller).to_owned()],
            kind: Kind::Split,
        };
        Self(controllers.iter().map(hierarchy).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Hierarchies {
        let text = lines.join("\n") + "\n";
        Hierarchies::from_table(&MountTable::parse(&text).unwrap()).unwrap()
    }

    #[test]
    fn controllers_that_share_a_hierarchy_and_hierarchies_with_a_name_are_found() {
        let found = found(&[
            "30 1 0:30 / /run/copy/cpu rw - cgroup cgroup rw,cpu,cpuacct",
            "31 1 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
            "32 1 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd",
        ]);
        assert_eq!(found.version(), Version::V1);
        assert_eq!(found.all()[0].root, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(found.all()[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found.all()[1].controllers, ["name=systemd"]);
        assert_eq!(found.all().len(), 2);
        assert!(found.has("cpuacct") && !found.has("memory"));
    }

    #[test]
    fn both_versions_at_once_are_hybrid_and_one_alone_is_itself() {
        let both = [
            "31 1 0:31 / /nowhere/pids rw - cgroup cgroup rw,pids",
            "32 1 0:32 / /nowhere/u rw - cgroup2 c rw",
        ];
        assert_eq!(found(&both).version(), Version::Hybrid);
        assert_eq!(found(&both[1..]).version(), Version::V2);
    }

    #[test]
    fn a_host_without_any_is_told_so() {
        let table = MountTable::parse("30 1 0:30 / / rw - ext4 e rw\n").unwrap();
        assert!(matches!(Hierarchies::from_table(&table), Err(Error::NoCgroups)));
    }
}
