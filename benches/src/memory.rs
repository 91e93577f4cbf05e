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

/// Whether a process is in a cgroup of the other one's, or below: a testbed and all its pods have one in common.
pub(crate) fn is_inside(pid: u32, testbed: u32) -> bool {
    let groups = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let named = |text: &str| {
        let of = |controllers: &str| text.lines().find_map(|line| Some(line.split_once(controllers)?.1));
        let path = of(":memory:").or_else(|| of("0::"))?;
        path.split('/').nth(1).filter(|first| !first.is_empty()).map(str::to_owned)
    };
    named(&groups(testbed)).is_some_and(|home| named(&groups(pid)).as_ref() == Some(&home))
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
}
