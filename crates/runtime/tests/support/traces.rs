//! What pods leave: compared before and after, and ended for certain.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cgroups::{Group, Hierarchies};
use kernel::MountTable;
use monitor::{MonitorRecord, ProcessId};
use rustix::process::Signal;

use super::{House, signal};

/// Everything of a house that a pod could leave.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    pub mounts: BTreeSet<String>,
    pub devices: BTreeSet<String>,
    pub groups: BTreeSet<String>,
    pub processes: BTreeSet<String>,
    pub files: BTreeSet<String>,
    pub holds: BTreeSet<String>,
}

impl Traces {
    pub fn of(house: &House) -> Self {
        let table = MountTable::of(house.holder()).unwrap();
        let net = format!("/proc/{}/net/dev", house.holder());
        let device = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
        Self {
            mounts: table.under(&house.dir).map(|mount| mount.point.display().to_string()).collect(),
            devices: fs::read_to_string(net).unwrap().lines().filter_map(device).collect(),
            groups: groups(&house.cgroup),
            processes: processes(&house.dir).union(&first_processes(house)).cloned().collect(),
            holds: holds(&house.state()),
            files: [house.state().join("runtime"), house.run()].iter().flat_map(|dir| files(dir)).collect(),
        }
    }
}

/// Who holds an image.
fn holds(state: &Path) -> BTreeSet<String> {
    let images = images::Images::open(&state.join("images"), images::Limits::default()).unwrap();
    images.list().unwrap().images.into_iter().flat_map(|image| image.users).collect()
}

/// Everything below a directory but what a server always has.
fn files(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
            found.insert(entry.path().display().to_string());
        }
    }
    found
}

/// Control groups below this one, in all hierarchies.
fn groups(path: &str) -> BTreeSet<String> {
    let group = Group::open(&Hierarchies::find().unwrap(), path).unwrap();
    let dirs: Vec<_> = group.dirs().map(Path::to_owned).collect();
    let below = |dir: &std::path::PathBuf| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.map(|entry| entry.path().display().to_string()).collect()
    };
    dirs.iter().flat_map(below).collect()
}

/// Processes whose command line speaks of the directory, but for the server.
fn processes(dir: &Path) -> BTreeSet<String> {
    let dir = dir.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let words = entries.filter_map(|entry| {
        let text = fs::read(entry.path().join("cmdline")).ok()?;
        let text = String::from_utf8_lossy(&text).replace('\0', " ");
        let of_house = text.contains(&dir) && !text.contains(" cri --listen ");
        of_house.then(|| format!("{} {text}", entry.file_name().to_string_lossy()))
    });
    words.collect()
}

/// First processes of PID namespaces that pods of this house share. They say nothing of whose they are, but their
/// users do.
fn first_processes(house: &House) -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let own = entries.filter(|entry| {
        let read = |name| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let first = read("uid_map").split_whitespace().nth(1).and_then(|id| id.parse().ok());
        read("comm") == "wardlet-init\n" && first.is_some_and(|first: u32| house.users().contains(&first))
    });
    own.map(|entry| format!("{} wardlet-init", entry.file_name().to_string_lossy())).collect()
}

/// Processes whose command line says that they are monitors of pods below this directory, or become one.
pub fn monitors(runs: &Path) -> Vec<u32> {
    let runs = runs.display().to_string();
    with_words(|words| words[0].ends_with("wardlet-monitor") && words[1].starts_with(&runs))
}

/// Processes that start containers below this directory, add to them, or take them away.
pub fn helpers(dir: &Path) -> Vec<u32> {
    let dir = dir.display().to_string();
    with_words(|words| {
        words[0].ends_with("wardlet-container") && words.iter().any(|word| word.starts_with(&dir))
    })
}

fn with_words(wanted: impl Fn(&[String]) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let text = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<String> =
            text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (words.len() > 2 && wanted(&words)).then_some(pid)
    });
    found.collect()
}

/// Ends every monitor below a run directory, each by what it wrote down about itself.
pub fn end_monitors(run: &Path) {
    for entry in fs::read_dir(run.join("sandboxes")).into_iter().flatten().flatten() {
        let Ok(Some(record)) = MonitorRecord::read(&entry.path()) else { continue };
        for id in record.pid_namespace.into_iter().chain([record.process]) {
            end(id);
        }
    }
}

fn end(id: ProcessId) {
    if id.is_same() {
        signal(id.pid, Signal::KILL);
    }
}

/// Ends everything in a control group of the tests' own, and the group.
pub fn end_group(path: &str) {
    let group = Group::open(&Hierarchies::find().unwrap(), path).unwrap();
    for _ in 0..50 {
        let killed = !group.exists() || group.kill_all().is_ok();
        if killed && group.remove().is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("the control group {path} is left");
}
