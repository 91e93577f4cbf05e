use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use kernel::{MountEntry, MountTable, Process};
use rustix::fs::{Mode, OFlags};

use crate::failure::Failure;

/// The files to join the cgroups by that a process is in, one for each hierarchy. What counts is
/// where it is: a container may have groups of its own below the one that it was given.
pub(super) fn of(process: &Process) -> Result<Vec<OwnedFd>, Failure> {
    let (theirs, ours) = (read(&process.pid().to_string())?, read("self")?);
    if !process.is_running()? {
        return Err(Failure::of("the container has ended"));
    }
    let table = MountTable::read()?;
    let mounts: Vec<&MountEntry> =
        table.iter().filter(|mount| mount.filesystem.starts_with("cgroup")).collect();
    let lines = theirs.lines().filter_map(|line| dir(line, &ours, &mounts).transpose());
    lines.map(|dir| open(&dir?.join("cgroup.procs"))).collect()
}

fn read(process: &str) -> Result<String, Failure> {
    let path = format!("/proc/{process}/cgroup");
    std::fs::read_to_string(&path).map_err(|cause| Failure::during(&format!("cannot read {path}"), cause))
}

/// Where the group of a line (`4:memory:/a`) is; `None` if we are in that group already, in a hierarchy that
/// is mounted nowhere.
fn dir(line: &str, ours: &str, mounts: &[&MountEntry]) -> Result<Option<PathBuf>, Failure> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
        return Err(Failure::of(format!("cannot read {line:?} as a control group")));
    };
    let group = Path::new(path);
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !group.is_absolute() || !group.components().all(plain) {
        return Err(unseen(path));
    }
    let mut of_hierarchy = mounts.iter().filter(|mount| is_of(mount, controllers)).peekable();
    if of_hierarchy.peek().is_none() && ours.lines().any(|own| own == line) {
        return Ok(None);
    }
    // A mount need not show all of its hierarchy.
    let seen = of_hierarchy.find_map(|mount| Some(mount.point.join(group.strip_prefix(&mount.root).ok()?)));
    seen.map(Some).ok_or_else(|| unseen(path))
}

fn is_of(mount: &MountEntry, controllers: &str) -> bool {
    match controllers {
        "" => mount.filesystem == "cgroup2",
        names => {
            let has = |name: &str| mount.super_options.iter().any(|option| option == name);
            mount.filesystem == "cgroup" && names.split(',').all(has)
        }
    }
}

fn unseen(path: &str) -> Failure {
    Failure::of(format!("the control group {path} is not to be seen from here"))
        .hinted("mount the hierarchies of control groups below /sys/fs/cgroup, whole")
}

fn open(path: &Path) -> Result<OwnedFd, Failure> {
    rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Failure::during(&format!("cannot open {}", path.display()), errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> MountTable {
        MountTable::parse(text).unwrap()
    }

    fn found(line: &str, ours: &str, table: &MountTable) -> Result<Option<PathBuf>, Failure> {
        dir(line, ours, &table.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_group_is_found_below_the_root_that_its_mount_shows() {
        let table = mounts(
            "30 1 0:20 / /cg/memory rw - cgroup none rw,memory\n\
             31 1 0:21 /pods /cg/cpu rw - cgroup none rw,cpu,cpuacct\n",
        );
        let at = |line| found(line, "", &table);
        assert_eq!(at("4:memory:/pods/a").unwrap(), Some("/cg/memory/pods/a".into()));
        assert_eq!(at("5:cpu,cpuacct:/pods/a").unwrap(), Some("/cg/cpu/a".into()));
        for line in ["5:cpu,cpuacct:/other", "4:memory:/../a", "4:memory:a", "4:memory"] {
            assert!(at(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_mounted_nowhere_is_passed_over_only_where_we_are_already() {
        let table = mounts("30 1 0:20 / /cg/memory rw - cgroup none rw,memory\n");
        assert_eq!(found("0::/", "4:memory:/x\n0::/\n", &table).unwrap(), None);
        let failure = found("0::/pod", "4:memory:/x\n0::/\n", &table).unwrap_err();
        assert!(failure.what.contains("/pod is not to be seen"), "{}", failure.what);
    }
}
