use std::fs;
use std::path::{Path, PathBuf};

use crate::scratch::{alive, maker};
use crate::words::say;

const ROOT: &str = "/sys/fs/cgroup";

/// The cgroups of the container `name`, in every hierarchy of the host.
pub(crate) fn of(name: &str) -> Vec<PathBuf> {
    all().into_iter().filter(|dir| dir.ends_with(name)).collect()
}

/// Removes the cgroups of runs that were killed together with their runc. The kernel keeps one that
/// still has a process.
pub(crate) fn sweep() {
    for dir in all() {
        let dead = dir.file_name().and_then(|n| n.to_str()).and_then(maker).is_some_and(|pid| !alive(pid));
        if dead && fs::remove_dir(&dir).is_ok() {
            say(&format!("removed {}, left by a run that was killed", dir.display()));
        }
    }
}

/// The cgroups at the top of each hierarchy: one (v2), or one per controller (v1).
fn all() -> Vec<PathBuf> {
    let hierarchies = list(Path::new(ROOT));
    let below = hierarchies.iter().flat_map(|dir| list(dir)).collect::<Vec<_>>();
    hierarchies.into_iter().chain(below).collect()
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
