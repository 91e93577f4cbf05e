use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use kernel::{MountEntry, MountTable, Process};
use rustix::fs::{Mode, OFlags};

use crate::failure::Failure;

/// The files to join the control groups by that a process is in, one for each hierarchy. What counts is
/// where it is: a container may have groups of its own below the one that it was given.
pub(super) fn of(process: &Process) -> Result<Vec<OwnedFd>, Failure> {
    let path = format!("/proc/{}/cgroup", process.pid());
    let text = std::fs::read_to_string(&path)
        .map_err(|cause| Failure::during(&format!("cannot read {path}"), cause))?;
    if !process.is_running()? {
        return Err(Failure::of("the container has ended"));
    }
    let table = MountTable::read()?;
    let hierarchies: Vec<&MountEntry> = table
        .iter()
        .filter(|mount| mount.root == Path::new("/") && mount.filesystem.starts_with("cgroup"))
        .collect();
    let dirs = text.lines().map(|line| dir(line, &hierarchies)).collect::<Result<Vec<_>, _>>()?;
    dirs.into_iter().flatten().map(|dir| open(&dir.join("cgroup.procs"))).collect()
}

/// Where the group of a line (`4:memory:/a`) is; `None` if its hierarchy is mounted nowhere, which is then
/// also where nothing is limited.
fn dir(line: &str, hierarchies: &[&MountEntry]) -> Result<Option<PathBuf>, Failure> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
        return Err(Failure::of(format!("cannot read {line:?} as a control group")));
    };
    let below = Path::new(path.trim_start_matches('/'));
    if below.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(Failure::of(format!("the control group {path} is not to be seen from here")));
    }
    let is_mounted = |mount: &&&MountEntry| match controllers {
        "" => mount.filesystem == "cgroup2",
        names => {
            let has = |name: &str| mount.super_options.iter().any(|option| option == name);
            mount.filesystem == "cgroup" && names.split(',').all(has)
        }
    };
    Ok(hierarchies.iter().find(is_mounted).map(|mount| mount.point.join(below)))
}

fn open(path: &Path) -> Result<OwnedFd, Failure> {
    rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Failure::during(&format!("cannot open {}", path.display()), errno))
}
