//! Cleaning up: processes by their cgroups, then the cgroups, then the directories. Namespaces, mounts and
//! network devices were only held by those processes and go with them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cgroups;
use super::record::{self, Record};
use crate::paths::{DATA_ROOT, Places, RUN_ROOT};
use crate::process::ProcessId;
use crate::{Error, Result};

/// How long the kernel may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Removes everything that `record` says was made, and makes sure of it.
pub(crate) fn sweep(record: &Record) -> Result<()> {
    let mut left = Vec::new();
    if record.boot == record::boot() {
        let daemons = record.daemons.iter().map(|daemon| daemon.process);
        let ours: Vec<ProcessId> = record.supervisor.into_iter().chain(daemons).collect();
        for process in &ours {
            process.signal(Signal::KILL);
        }
        left = cgroups::clear(&record.cgroups, PATIENCE);
        left.extend(ours.iter().filter(|one| !gone(**one)).map(|one| format!("process {}", one.pid)));
    }
    left.extend(mounts_below(&record.places));
    if !left.is_empty() {
        return Err(Error::LeftBehind { name: record.name.clone(), what: left.join(", ") });
    }
    remove(&record.places.data)?;
    // Last, because the record is what a later attempt would go by.
    remove(&record.places.run)
}

fn gone(process: ProcessId) -> bool {
    let began = Instant::now();
    while process.alive() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    !process.alive()
}

/// Nothing of ours is ever mounted in the host's namespace: if something is, removing the directories
/// could remove what is mounted there.
fn mounts_below(places: &Places) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    points
        .filter(|point| point.starts_with(&places.data) || point.starts_with(&places.run))
        .map(|point| format!("mount {}", point.display()))
        .collect()
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Cleans up after every testbed whose keeper is gone. Returns their names.
///
/// # Errors
/// If something of one of them cannot be removed.
pub fn leftovers() -> Result<Vec<String>> {
    let Ok(lock) = super::lock() else { return Ok(Vec::new()) };
    let mut cleaned = Vec::new();
    for name in record::names() {
        // Read under the lock: one that is just being created has its keeper before the lock is released.
        let Ok(record) = Record::read(&name) else { continue };
        if !record.tended() {
            sweep(&record)?;
            cleaned.push(name);
        }
    }
    // Both fail while any testbed is there, and then they should stay.
    let _ = fs::remove_dir(RUN_ROOT);
    let _ = fs::remove_dir(DATA_ROOT);
    drop(lock);
    Ok(cleaned)
}
