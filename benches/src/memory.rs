//! The memory of processes, each page counted by its share: what a process costs beside the others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// What serves pods, by the name of its program; a runtime has some of them.
const SERVERS: &[&str] = &["wardlet", "wardlet-monitor", "containerd", "containerd-shim-runc-v2", "pause"];

/// Kilobytes of all servers in the mount namespace of this process, and of their children that hold a pod's
/// namespaces.
pub(crate) fn of_servers(neighbour: u32) -> anyhow::Result<u64> {
    let mounts = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let here = mounts(neighbour).with_context(|| format!("process {neighbour} has no mount namespace"))?;
    let mut found = BTreeSet::new();
    let all: Vec<u32> = pids();
    for &pid in all.iter().filter(|&&pid| mounts(pid).as_ref() == Some(&here)) {
        if program(pid).is_some_and(|name| SERVERS.contains(&name.as_str())) {
            found.insert(pid);
        }
    }
    let holders = all.iter().filter(|&&pid| parent(pid).is_some_and(|parent| found.contains(&parent)));
    let holders: Vec<u32> =
        holders.copied().filter(|&pid| program(pid).as_deref() == Some("pause")).collect();
    found.extend(holders);
    found.into_iter().map(share).sum()
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn program(pid: u32) -> Option<String> {
    let path: PathBuf = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn parent(pid: u32) -> Option<u32> {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "PPid:")?.try_into().ok()
}

/// A process that has ended meanwhile has none.
fn share(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    match fs::read_to_string(Path::new(&path)) {
        Ok(text) => field(&text, "Pss:").with_context(|| path),
        Err(_) => Ok(0),
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_share_and_a_parent() {
        assert!(share(std::process::id()).unwrap() > 100);
        assert!(parent(std::process::id()).is_some());
        assert_eq!(field("Name:\tx\nPPid:\t17\n", "PPid:"), Some(17));
    }
}
