//! What the host sees of processes.

use std::collections::BTreeMap;
use std::fs;

/// The first host ID and the length of the first line of a process's user map.
#[track_caller]
pub fn block(pid: i32) -> (u64, u64) {
    let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap();
    let line: Vec<u64> = map.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert_eq!((line.len(), line[0]), (3, 0), "one line that begins with root: {map}");
    assert_eq!(map, fs::read_to_string(format!("/proc/{pid}/gid_map")).unwrap());
    (line[1], line[2])
}

/// The namespaces of a process, but for those that it makes for its children.
#[track_caller]
pub fn namespaces(pid: &str) -> BTreeMap<String, String> {
    let links = fs::read_dir(format!("/proc/{pid}/ns")).unwrap().flatten();
    let named = links.map(|link| {
        let target = fs::read_link(link.path()).unwrap();
        (link.file_name().to_string_lossy().into_owned(), target.display().to_string())
    });
    named.filter(|(name, _)| !name.ends_with("_for_children")).collect()
}

/// The host's processes that have an ID in the block that starts here.
pub fn processes_in(first: u64) -> Vec<String> {
    let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    pids_in(first).iter().map(|pid| format!("{pid} {}", name(pid))).collect()
}

pub fn pids_in(first: u64) -> Vec<i32> {
    let block = first..first + 65_536;
    all().filter(|(_, status)| ids(status).any(|id| block.contains(&id))).map(|(pid, _)| pid).collect()
}

fn ids(status: &str) -> impl Iterator<Item = u64> + '_ {
    let lines = status.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"));
    lines.flat_map(|line| line.split_whitespace().skip(1).filter_map(|number| number.parse().ok()))
}

/// Every process with its status.
pub fn all() -> impl Iterator<Item = (i32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, fs::read_to_string(format!("/proc/{pid}/status")).ok()?)))
}

/// Its words, each ended by a zero byte.
pub fn words(pid: i32) -> String {
    fs::read(format!("/proc/{pid}/cmdline"))
        .map(|b| String::from_utf8_lossy(&b).into_owned())
        .unwrap_or_default()
}

/// The program it runs.
pub fn program(pid: i32) -> String {
    fs::read_link(format!("/proc/{pid}/exe")).map(|p| p.display().to_string()).unwrap_or_default()
}

/// The shim of a sandbox.
#[track_caller]
pub fn shim(sandbox: &str) -> i32 {
    let of_it = |pid: &i32| program(*pid).contains("containerd-shim") && words(*pid).contains(sandbox);
    all().map(|(pid, _)| pid).find(of_it).expect("a shim")
}
