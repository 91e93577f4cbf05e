use std::path::{Path, PathBuf};

use crate::counters::Counters;
use crate::eager::Eager;
use crate::error::{Error, Result};
use crate::find::Hierarchies;
use crate::group::Group;
use crate::resources::Resources;
use crate::systemd::{Systemd, Unit, scope_id};
use crate::version::Version;

/// The cgroup of the process that holds a scope.
const HOLDER: &str = "holder";

/// All control groups of this host, by their paths from the root of each hierarchy. Where process 1 is systemd, one whose
/// name ends with `.slice` is a unit of systemd, which is made, limited and stopped by it; and so is the scope around a
/// container.
#[derive(Debug)]
pub struct Groups(Hierarchies, Eager, Option<Systemd>);

impl Groups {
    /// Finds the hierarchies that are mounted here.
    pub fn find() -> Result<Self> {
        let hierarchies = Hierarchies::find()?;
        let systemd = Systemd::of_host().filter(|_| hierarchies.version() == Version::V2);
        Ok(Self(hierarchies, Eager::default(), systemd))
    }

    /// Whether process 1 is systemd and has all cgroups of this host: they are of version 2 alone.
    #[must_use]
    pub fn has_systemd(&self) -> bool {
        self.2.is_some()
    }

    /// systemd with the unit that has the cgroup at this path, if it is a unit's, or that of a container in a scope.
    fn unit(&self, path: &str) -> Result<Option<(&Systemd, Unit)>> {
        let Some(systemd) = &self.2 else { return Ok(None) };
        let unit = Unit::around(path)?.map_or_else(|| Unit::of(path), |scope| Ok(Some(scope)))?;
        Ok(unit.map(|unit| (systemd, unit)))
    }

    /// Announces that a process will be migrated within the next 60 ms, so that the migration waits less. See [`Eager`].
    pub fn soon(&self) {
        self.1.soon(&self.0);
    }

    /// The cgroup version of this host.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.version()
    }

    /// Whether any hierarchy has this controller, such as `memory`.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.0.has(controller)
    }

    /// The CPUs that the kernel has for cgroup v2, as a list of ranges; `None` without the controller `cpuset`.
    pub(crate) fn all_cpus(&self) -> Option<String> {
        let roots = self.roots().ok()?;
        let read = |root: &PathBuf| std::fs::read_to_string(root.join("cpuset.cpus.effective")).ok();
        roots.iter().find_map(read).map(|cpus| cpus.trim().to_owned())
    }

    /// Whether swap can be limited, by looking for the file that does it.
    #[must_use]
    pub fn limits_swap(&self) -> bool {
        let files = ["memory.memsw.limit_in_bytes", "memory.swap.max"];
        let has = |root: &PathBuf| files.iter().any(|file| root.join(file).exists() || below_has(root, file));
        self.roots().is_ok_and(|roots| roots.iter().any(has))
    }

    /// The root of each hierarchy. It cannot be opened as a [`Group`]; the parent of any group right below it is the root.
    fn roots(&self) -> Result<Vec<PathBuf>> {
        let below = Group::open(&self.0, "/wardlet")?;
        Ok(below.dirs().filter_map(Path::parent).map(Path::to_owned).collect())
    }

    /// Makes it and all groups above it; one that exists is kept.
    pub fn make(&self, path: &str) -> Result<()> {
        if let Some((systemd, unit)) = self.unit(path)? {
            systemd.start_slice(&unit)?;
        }
        // systemd enables only the controllers that it knows.
        Group::open(&self.0, path)?.make()
    }

    /// Has systemd make the scope of the container that has the cgroup at this path, with the shares of these limits, and
    /// makes that cgroup.
    /// systemd makes no scope without a process, and ends it with its last one: `holder` is one, in a cgroup of its own,
    /// which is returned. The holder and its cgroup may go when a process of the container is in the other one.
    ///
    /// # Errors
    /// [`Error::NoSystemd`] if process 1 is not systemd, [`Error::Systemd`] if systemd does not make the scope.
    pub fn make_scope(&self, path: &str, holder: u32, limits: &Resources) -> Result<Group> {
        let systemd = self.2.as_ref().ok_or(Error::NoSystemd)?;
        let refused =
            || Error::Path { path: path.to_owned(), why: "it is not that of a container in a scope" };
        let unit = Unit::around(path)?.ok_or_else(refused)?;
        systemd.start_scope(&unit, holder, limits)?;
        let beside = Group::open(&self.0, &format!("{}/{HOLDER}", unit.path()?))?;
        beside.make_without_controllers()?;
        beside.add(holder)?;
        // The scope's own cgroup has no process now, and hands controllers down; systemd has not enabled those that it does
        // not know.
        Group::open(&self.0, path)?.make()?;
        Ok(beside)
    }

    /// Whether any hierarchy has it.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        Group::open(&self.0, path).is_ok_and(|group| group.exists())
    }

    /// Kills all processes in it and below it, and waits until they have ended. A group that does not exist is no error.
    pub fn kill_all(&self, path: &str) -> Result<()> {
        let group = Group::open(&self.0, path)?;
        if group.exists() { group.kill_all() } else { Ok(()) }
    }

    /// Removes it with all groups below it; that of a container with its scope. A group that does not exist is no error.
    pub fn remove(&self, path: &str) -> Result<()> {
        let Some((systemd, unit)) = self.unit(path)? else { return Group::open(&self.0, path)?.remove() };
        systemd.stop(&unit)?;
        Group::open(&self.0, &unit.path()?)?.remove()
    }

    /// Writes the limits that are `Some`, and leaves the others unchanged. See [`Group::apply`].
    pub fn apply(&self, path: &str, limits: &Resources) -> Result<()> {
        if let Some((systemd, unit)) = self.unit(path)? {
            systemd.limit(&unit, limits)?;
        }
        Group::open(&self.0, path)?.apply(limits)
    }

    /// What the kernel has counted for the whole host. It does not count everything there.
    #[must_use]
    pub fn host_counters(&self) -> Counters {
        Counters::read_root(&self.0)
    }

    /// The group that a process is in; `None` if that is the root or outside of what is mounted here, or of no such process.
    #[must_use]
    pub fn of_process(&self, process: u32) -> Option<Group> {
        let lines = std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        Group::open(&self.0, memory_path(&lines)?).ok()
    }

    /// The group at this path, whether it exists or not.
    pub fn open(&self, path: &str) -> Result<Group> {
        Group::open(&self.0, path)
    }

    /// Its directories, one in each hierarchy.
    pub fn dirs(&self, path: &str) -> Result<Vec<PathBuf>> {
        Ok(Group::open(&self.0, path)?.dirs().map(Path::to_owned).collect())
    }

    /// Names of its child groups, over all hierarchies.
    pub fn below(&self, path: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = vec![];
        for dir in Group::open(&self.0, path)?.dirs() {
            // A hierarchy in which it was never made.
            let Ok(entries) = std::fs::read_dir(dir) else { continue };
            let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            names.extend(dirs.filter_map(|entry| entry.file_name().into_string().ok()));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Paths of all groups whose last component, or the container ID in the name of its scope, matches `wanted`. The
    /// search does not descend into a match.
    pub fn named(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = vec![];
        for root in self.roots()? {
            let mut waiting = vec![(root, String::new())];
            while let Some((dir, path)) = waiting.pop() {
                // One that is removed just now has nothing below it.
                for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                    let Ok(name) = entry.file_name().into_string() else { continue };
                    if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        continue;
                    }
                    let path = format!("{path}/{name}");
                    if wanted(scope_id(&name).unwrap_or(&name)) {
                        found.push(path);
                    } else {
                        waiting.push((entry.path(), path));
                    }
                }
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// The path of the group that counts the memory of a process, by the lines `ID:CONTROLLERS:PATH` of its `/proc/PID/cgroup`: with
/// version 1 that of the controller, otherwise that of the unified hierarchy.
fn memory_path(lines: &str) -> Option<&str> {
    let fields = lines.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let path_of =
        |is_it: fn(&str) -> bool| fields.clone().find(|(names, _)| is_it(names)).map(|(_, path)| path);
    path_of(|names| names.split(',').any(|name| name == "memory")).or_else(|| path_of(str::is_empty))
}

/// The root of the unified hierarchy has no limits of its own; any group below it that has them shows that
/// there are some.
fn below_has(dir: &Path, file: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.path().join(file).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_is_that_which_counts_its_memory() {
        assert_eq!(memory_path("0::/system.slice/a:b.service\n"), Some("/system.slice/a:b.service"));
        let hybrid = "5:cpu,cpuacct:/\n4:memory:/system.slice/a\n1:name=systemd:/b\n0::/b\n";
        assert_eq!(memory_path(hybrid), Some("/system.slice/a"));
        assert_eq!(memory_path("1:name=systemd:/b\n"), None);
    }
}
