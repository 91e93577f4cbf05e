//! One directory per cgroup hierarchy under which everything of a testbed runs, containers included.
//!
//! The supervisor enters them and then unshares its cgroup namespace: what kubelet, containerd and runc take
//! for the root of the hierarchies is our directory. So nothing can be made elsewhere, and whatever is left
//! after a crash, shims and containers that daemonized, is found by its membership.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::ProcessId;
use crate::{Error, Result, program};

const ROOT: &str = "/sys/fs/cgroup";

/// One hierarchy as /proc/self/cgroup names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    /// `cpu,cpuacct`, `name=systemd`; empty for cgroup v2.
    controllers: String,
    /// The cgroup of this process.
    own: String,
}

impl Hierarchy {
    /// Where it is mounted by custom. Version 2 is at the root, or beside version 1 at `unified`.
    fn mount_point(&self, alone: Mode) -> PathBuf {
        let root = Path::new(ROOT);
        match (self.controllers.as_str(), alone) {
            ("", Mode::Pure) => root.to_path_buf(),
            ("", Mode::Hybrid) => root.join("unified"),
            (names, _) => root.join(names.strip_prefix("name=").unwrap_or(names)),
        }
    }

    fn options(&self) -> String {
        if self.controllers.starts_with("name=") {
            format!("none,{}", self.controllers)
        } else {
            self.controllers.clone()
        }
    }
}

/// Whether version 2 is all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pure,
    Hybrid,
}

fn parse(text: &str) -> (Vec<Hierarchy>, Mode) {
    let all: Vec<Hierarchy> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some(Hierarchy { controllers: fields.next()?.to_owned(), own: fields.next()?.to_owned() })
        })
        .collect();
    let mode = if all.iter().all(|one| one.controllers.is_empty()) { Mode::Pure } else { Mode::Hybrid };
    (all, mode)
}

fn hierarchies() -> Result<(Vec<Hierarchy>, Mode)> {
    let path = "/proc/self/cgroup";
    Ok(parse(&fs::read_to_string(path).map_err(Error::file("read", path))?))
}

/// The directories of the testbed `name`, below this process's own cgroups so that limits put on us hold
/// for what we start. In pure version 2 below the root: a cgroup with processes cannot pass controllers on.
pub(crate) fn plan(name: &str) -> Result<Vec<PathBuf>> {
    let (hierarchies, mode) = hierarchies()?;
    let directory = |one: &Hierarchy| {
        let own = if mode == Mode::Pure { "" } else { one.own.trim_start_matches('/') };
        one.mount_point(mode).join(own).join(format!("wardlet-testbed-{name}"))
    };
    Ok(hierarchies.iter().filter(|one| one.mount_point(mode).is_dir()).map(directory).collect())
}

/// Makes the directories and moves this process into them.
pub(crate) fn enter(directories: &[PathBuf]) -> Result<()> {
    for directory in directories {
        fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        inherit_cpuset(directory);
        join(directory)?;
    }
    Ok(())
}

/// A cpuset without CPUs takes no process; children copy ours.
fn inherit_cpuset(directory: &Path) {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let from = directory.parent().unwrap_or(directory).join(file);
        if let Ok(value) = fs::read_to_string(from) {
            let _ = fs::write(directory.join(file), value);
        }
    }
    if directory.join("cpuset.cpus").exists() {
        let _ = fs::write(directory.join("cgroup.clone_children"), "1");
    }
}

fn join(directory: &Path) -> Result<()> {
    let procs = directory.join("cgroup.procs");
    fs::write(&procs, "0").map_err(Error::file("join", procs))
}

/// Inside the new cgroup namespace: the hierarchies as seen from it, at their usual places, and this
/// process with all that it will start in `/daemons`, for a cgroup of version 2 that passes controllers on
/// may hold no process itself.
pub(crate) fn mount_own_view() -> Result<()> {
    let (hierarchies, mode) = hierarchies()?;
    let mount = |kind: &str, options: &str, at: &Path| {
        program::run(Command::new("mount").args(["-t", kind, "-o", options, kind]).arg(at)).map(|_| ())
    };
    if mode == Mode::Hybrid {
        mount("tmpfs", "mode=755", Path::new(ROOT))?;
    }
    for one in &hierarchies {
        let point = one.mount_point(mode);
        fs::create_dir_all(&point).map_err(Error::file("make", &point))?;
        let version2 = one.controllers.is_empty();
        let kind = if version2 { "cgroup2" } else { "cgroup" };
        let options = if version2 { "rw".to_owned() } else { one.options() };
        mount(kind, &options, &point)?;
        link_members(one, &point);
        let leaf = point.join("daemons");
        fs::create_dir_all(&leaf).map_err(Error::file("make", &leaf))?;
        inherit_cpuset(&leaf);
        join(&leaf)?;
        if version2 {
            pass_controllers_on(&point);
        }
    }
    Ok(())
}

/// `cpu` and `cpuacct` for a hierarchy mounted as `cpu,cpuacct`.
fn link_members(one: &Hierarchy, point: &Path) {
    let members = one.controllers.split(',').filter(|_| one.controllers.contains(','));
    for member in members {
        if let (Some(parent), Some(name)) = (point.parent(), point.file_name()) {
            let _ = std::os::unix::fs::symlink(name, parent.join(member));
        }
    }
}

fn pass_controllers_on(point: &Path) {
    let available = fs::read_to_string(point.join("cgroup.controllers")).unwrap_or_default();
    for controller in available.split_whitespace() {
        let _ = fs::write(point.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// All members of the directories and of what is below them.
#[must_use]
pub(crate) fn members(directories: &[PathBuf]) -> Vec<ProcessId> {
    let mut found = Vec::new();
    for directory in directories.iter().flat_map(|directory| subtree(directory)) {
        let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse().ok()).filter_map(ProcessId::of));
    }
    found.sort_by_key(|process| process.pid);
    found.dedup();
    found
}

/// The directory and all below it, the deepest first.
fn subtree(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let children = fs::read_dir(directory).into_iter().flatten().flatten();
    for child in children.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        all.extend(subtree(&child.path()));
    }
    if directory.is_dir() {
        all.push(directory.to_path_buf());
    }
    all
}

/// Kills every member and removes the directories; returns those that remain after `patience`.
pub(crate) fn clear(directories: &[PathBuf], patience: Duration) -> Vec<String> {
    let began = Instant::now();
    let mut killed: BTreeSet<ProcessId> = BTreeSet::new();
    loop {
        thaw(directories);
        let members = members(directories);
        for member in &members {
            member.signal(Signal::KILL);
            killed.insert(*member);
        }
        let dirs: Vec<PathBuf> = directories.iter().flat_map(|directory| subtree(directory)).collect();
        let left: Vec<PathBuf> = dirs.into_iter().filter(|dir| fs::remove_dir(dir).is_err()).collect();
        if left.is_empty() && members.is_empty() {
            await_collection(&killed, patience.saturating_sub(began.elapsed()));
            return Vec::new();
        }
        if began.elapsed() > patience {
            let processes = members.iter().map(|member| format!("process {}", member.pid));
            return processes.chain(left.iter().map(|dir| format!("cgroup {}", dir.display()))).collect();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A zombie still shows its namespaces until its parent has reaped it: the host's init, or the keeper. A child of
/// another process inside is reaped by that one.
fn await_collection(killed: &BTreeSet<ProcessId>, patience: Duration) {
    let began = Instant::now();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let orphan =
        |process: &ProcessId| process.uncollected_by().is_some_and(|parent| parent == 1 || parent == own);
    while began.elapsed() < patience && killed.iter().any(orphan) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A frozen process dies only once it is thawed.
fn thaw(directories: &[PathBuf]) {
    for directory in directories.iter().flat_map(|directory| subtree(directory)) {
        let state = directory.join("freezer.state");
        if fs::read_to_string(&state).is_ok_and(|text| text.trim() != "THAWED") {
            let _ = fs::write(state, "THAWED");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_hierarchies_are_mounted_where_everybody_looks_for_them() {
        let (all, mode) = parse("9:name=systemd:/\n4:cpu,cpuacct:/a:b\n0::/\n");
        assert_eq!(mode, Mode::Hybrid);
        let points: Vec<_> = all.iter().map(|one| one.mount_point(mode)).collect();
        let expected = ["systemd", "cpu,cpuacct", "unified"].map(|name| Path::new(ROOT).join(name));
        assert_eq!(points, expected);
        assert_eq!(all.get(1).map(|one| one.own.as_str()), Some("/a:b"));
        assert_eq!(all.first().map(Hierarchy::options).as_deref(), Some("none,name=systemd"));
    }

    #[test]
    fn version_2_alone_is_the_root_itself() {
        let (all, mode) = parse("0::/user.slice\n");
        assert_eq!((mode, all.first().map(|one| one.mount_point(mode))), (Mode::Pure, Some(ROOT.into())));
    }
}
