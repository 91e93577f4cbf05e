//! What a testbed has on the host while it is up, to be looked for afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{ProcessId, Testbed};

pub(crate) struct Traces {
    processes: Vec<ProcessId>,
    namespaces: BTreeSet<String>,
    cgroups: Vec<PathBuf>,
    directories: [PathBuf; 2],
    links: BTreeSet<String>,
}

impl Traces {
    /// Of a testbed that is up.
    pub(crate) fn of(testbed: &Testbed) -> Self {
        let record = testbed.record();
        let supervisor = record.supervisor.expect("a supervisor");
        let mut processes: Vec<_> = record.cgroups.iter().flat_map(|dir| members(dir)).collect();
        processes.extend(record.keeper);
        assert!(processes.contains(&supervisor), "the supervisor is in the testbed's cgroups");
        let mut namespaces: BTreeSet<String> = processes.iter().flat_map(|one| namespaces(one.pid)).collect();
        for own in namespaces_of_host() {
            namespaces.remove(&own);
        }
        assert!(namespaces.len() >= 3, "it has a mount, a network and a cgroup namespace: {namespaces:?}");
        Self {
            processes,
            namespaces,
            cgroups: record.cgroups.clone(),
            directories: [record.places.run.clone(), record.places.data.clone()],
            links: links(),
        }
    }

    /// Its processes.
    pub(crate) fn processes(&self) -> &[ProcessId] {
        &self.processes
    }

    /// Whatever of it is still there.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        left.extend(
            self.processes.iter().filter(|one| one.alive()).map(|one| format!("process {}", one.pid)),
        );
        left.extend(
            self.cgroups.iter().filter(|dir| dir.exists()).map(|dir| format!("cgroup {}", dir.display())),
        );
        left.extend(self.directories.iter().filter(|dir| dir.exists()).map(|dir| dir.display().to_string()));
        let alive: BTreeSet<String> = pids().into_iter().flat_map(namespaces).collect();
        left.extend(self.namespaces.intersection(&alive).map(|namespace| format!("namespace {namespace}")));
        let table = fs::read_to_string("/proc/self/mountinfo").expect("the mount table");
        let ours = |line: &&str| self.directories.iter().any(|dir| line.contains(&dir.display().to_string()));
        left.extend(table.lines().filter(ours).map(|line| format!("mount {line}")));
        left.extend(links().difference(&self.links).map(|link| format!("network device {link}")));
        left
    }
}

fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn namespaces_of_host() -> Vec<String> {
    namespaces(i32::try_from(std::process::id()).expect("a pid"))
}

fn namespaces(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/ns")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())).collect()
}

fn members(directory: &Path) -> Vec<ProcessId> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<_> = text.lines().filter_map(|line| ProcessId::of(line.parse().ok()?)).collect();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(members(&entry.path()));
        }
    }
    found
}

/// Network devices that this namespace sees. veths of others may come and go; ours have these names.
fn links() -> BTreeSet<String> {
    let output = Command::new("ip").args(["-o", "link"]).output().expect("ip");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()));
    names.filter(|name| name.starts_with("node0") || name.starts_with("cni0")).collect()
}
