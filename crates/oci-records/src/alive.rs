//! Checks whether a container, or the process that creates it, still runs. The evidence is in `/proc`: the start time
//! of a process, and its ID mappings or user IDs, which no process of another pod has.

use std::path::Path;

use ids::parse::proc_map::parse_proc_map;
use ids::{IdMapping, IdMappings};
use procfs::{ProcessId, Task};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The process that creates a container, identified by PID and start time, so that a later process with the same PID is
/// not mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Creator {
    pid: u32,
    /// Its start time, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    began: u64,
}

impl Creator {
    /// This process, which keeps its identity when it executes the runtime. It is an error if `/proc` cannot be read: a
    /// creator without a start time would count as ended while it runs.
    pub fn own() -> Result<Self> {
        let pid = std::process::id();
        let own = ProcessId::of(pid);
        let own = own.map_err(|e| Error::new("cannot read", &Path::new("/proc").join(pid.to_string()), e))?;
        Ok(Self { pid, began: own.start_time })
    }

    /// The process with this PID and this start time, in clock ticks since boot.
    #[must_use]
    pub fn new(pid: u32, began: u64) -> Self {
        Self { pid, began }
    }

    /// Its PID.
    #[must_use]
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Its start time, in clock ticks since boot.
    #[must_use]
    pub fn began(self) -> u64 {
        self.began
    }

    /// Whether it still runs. A zombie does not.
    #[must_use]
    pub fn runs(self) -> bool {
        ProcessId { pid: self.pid, start_time: self.began }.is_running()
    }
}

/// The PID of a container's init process, if it runs in the pod's user namespace, so that other processes can join that
/// namespace through it. The process must have the PID in `pid_file`, which the runtime wrote, and the ID mappings of
/// the pod, which no process of another pod has.
#[must_use]
pub fn init_of(pid_file: &Path, ids: &IdMappings) -> Option<u32> {
    let pid = pid_in(pid_file)?;
    // The open task pins one process: mappings and state are not of two processes with the same PID.
    let process = Task::open(pid).ok()?;
    let maps = |file: &str| -> Option<Vec<IdMapping>> {
        parse_proc_map(std::str::from_utf8(&process.read(file).ok()?).ok()?).ok()
    };
    (maps("uid_map")? == ids.uids && maps("gid_map")? == ids.gids && runs(&process)).then_some(pid)
}

/// The PID of a container's init process, if it runs, in whatever user namespace. The process must have the PID in
/// `pid_file`, which the runtime wrote, and either the ID mappings of the pod or user IDs from the pod's block. No
/// process of another pod has either.
///
/// A process that enters a user namespace nested in the pod's has other ID mappings from then on, or none. Its user IDs
/// stay the same, and it can only change them to others of the pod's block.
#[must_use]
pub fn first_process(pid_file: &Path, ids: &IdMappings) -> Option<u32> {
    let with_maps = init_of(pid_file, ids);
    with_maps.or_else(|| {
        let pid = pid_in(pid_file)?;
        let process = Task::open(pid).ok()?;
        let is_pods = |user: u32| {
            ids.uids.iter().any(|line| (line.host().first()..=line.host().last()).contains(&user))
        };
        (users(&process)?.into_iter().all(is_pods) && runs(&process)).then_some(pid)
    })
}

/// The real, effective, saved and filesystem user ID of a process, as the host sees them.
fn users(process: &Task) -> Option<[u32; 4]> {
    let status = process.read("status").ok()?;
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    let numbers: Option<Vec<u32>> =
        std::str::from_utf8(line).ok()?.split_whitespace().map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Whether a process with the PID in this file runs. It may be an unrelated process that has the same PID by now.
#[must_use]
pub(crate) fn has_running_process(pid_file: &Path) -> bool {
    pid_in(pid_file).and_then(|pid| Task::open(pid).ok()).is_some_and(|process| runs(&process))
}

pub(crate) fn pid_in(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Whether an open process has not ended. A zombie has ended.
fn runs(process: &Task) -> bool {
    process.stat().is_ok_and(|stat| !stat.has_ended())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_the_next_of_its_number() {
        let own = Creator::own().unwrap();
        assert!(own.runs());
        assert!(!Creator { began: own.began + 1, ..own }.runs());
        assert!(!Creator { pid: u32::MAX, ..own }.runs());
    }

    #[test]
    fn a_process_with_other_maps_is_not_the_pods() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        std::fs::write(&file, format!("{}\n", std::process::id())).unwrap();
        let line = |host| vec![IdMapping::new(0, host, 65_536).unwrap()];
        let ids = IdMappings { uids: line(65_536 * 7), gids: line(65_536 * 7) };
        assert_eq!(init_of(&file, &ids), None);
        assert!(has_running_process(&file) && !has_running_process(Path::new("/no/such")));
    }
}
