//! The memory of processes, each page counted by its share: what a process costs beside the others.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

/// What serves pods, by the name of its program; a runtime has some of them.
const SERVERS: &[&str] = &["wardlet", "wardlet-monitor", "containerd", "containerd-shim-runc-v2", "pause"];

/// Kilobytes of all servers that came from this process.
pub(crate) fn of_servers(ancestor: u32) -> anyhow::Result<u64> {
    let serves = |pid| {
        executable(pid).is_some_and(|path| SERVERS.iter().any(|name| path.ends_with(name)))
            && is_inside(pid, ancestor)
    };
    of_all(serves).map(|(kilobytes, _)| kilobytes)
}

/// Kilobytes of all processes that are wanted, and their number.
pub(crate) fn of_all(wanted: impl Fn(u32) -> bool) -> anyhow::Result<(u64, usize)> {
    let found: Vec<u32> = pids().into_iter().filter(|&pid| wanted(pid)).collect();
    let sum = found.iter().map(|&pid| share(pid)).sum::<anyhow::Result<u64>>()?;
    Ok((sum, found.len()))
}

/// Whether a process is of the testbed that the other one is of: all its daemons and pods are in one cgroup.
pub(crate) fn is_inside(pid: u32, testbed: u32) -> bool {
    let home = |pid: u32| testbed_of(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?);
    home(testbed).is_some_and(|testbed| home(pid) == Some(testbed))
}

/// The testbed's cgroup in the lines of `/proc/PID/cgroup`, which may be below those of this session.
fn testbed_of(lines: &str) -> Option<String> {
    let mut parts = lines.lines().flat_map(|line| line.rsplit(':').next().unwrap_or_default().split('/'));
    parts.find(|part| part.starts_with("wardlet-testbed-")).map(str::to_owned)
}

pub(crate) fn megabytes(kilobytes: u64) -> f64 {
    f64::from(u32::try_from(kilobytes).unwrap_or(u32::MAX)) / 1000.0
}

pub(crate) fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub(crate) fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

pub(crate) fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "PPid:")?.try_into().ok()
}

/// A process that has ended meanwhile has none.
fn share(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    match fs::read_to_string(&path) {
        Ok(text) => field(&text, "Pss:").with_context(|| path),
        Err(_) => Ok(0),
    }
}

/// The number behind a name in a file of lines `Name: number`.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_share_and_a_parent() {
        let own = std::process::id();
        assert!(share(own).unwrap() > 100);
        assert!(parent_of(own).is_some());
        assert!(of_all(|pid| pid == own).unwrap().0 > 100);
        assert_eq!(field("Name:\tx\nPPid:\t17\n", "PPid:"), Some(17));
    }

    #[test]
    fn a_process_is_of_the_testbed_whose_cgroup_it_is_below() {
        let lines =
            "4:memory:/of/a/session/wardlet-testbed-one/kubepods/podx\n0::/wardlet-testbed-one/daemons\n";
        assert_eq!(testbed_of(lines).as_deref(), Some("wardlet-testbed-one"));
        assert_eq!(testbed_of("4:memory:/of/a/session\n0::/\n"), None);
        assert!(!is_inside(std::process::id(), std::process::id()));
    }
}
