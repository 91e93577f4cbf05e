//! Whether a pod is there, by evidence that no other process can give.

use std::path::Path;

use bundle::IdLines;
use ids::IdMapping;
use ids::parse::proc_map::parse_proc_map;
use procfs::{ProcessId, Task};
use serde::{Deserialize, Serialize};

/// A process that is told from any later one of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Creator {
    pid: u32,
    /// When it began, in the kernel's ticks since the boot.
    began: u64,
}

impl Creator {
    /// This process, and the runtime that it becomes.
    #[must_use]
    pub fn own() -> Self {
        let pid = std::process::id();
        Self { pid, began: ProcessId::of(pid).map(|own| own.start_time).unwrap_or_default() }
    }

    /// The one of this number that began then, in the kernel's ticks since the boot.
    #[must_use]
    pub fn new(pid: u32, began: u64) -> Self {
        Self { pid, began }
    }

    /// Its number.
    #[must_use]
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// When it began.
    #[must_use]
    pub fn began(self) -> u64 {
        self.began
    }

    /// Whether it still runs.
    #[must_use]
    pub fn runs(self) -> bool {
        ProcessId { pid: self.pid, start_time: self.began }.is_running()
    }
}

/// The first process of a container, if it is there: the one that the runtime wrote down, and that has the
/// pod's maps. No other pod's process has these.
#[must_use]
pub fn init_of(pid_file: &Path, ids: &IdLines) -> Option<u32> {
    let pid = pid_in(pid_file)?;
    // One that is held: maps and state are those of one process.
    let process = Task::open(pid).ok()?;
    let maps = |file: &str| -> Option<Vec<IdMapping>> {
        parse_proc_map(std::str::from_utf8(&process.read(file).ok()?).ok()?).ok()
    };
    (maps("uid_map")? == ids.uids && maps("gid_map")? == ids.gids && runs(&process)).then_some(pid)
}

/// Whether the process in this file runs, whoever it is.
#[must_use]
pub(super) fn someone_in(pid_file: &Path) -> bool {
    pid_in(pid_file).and_then(|pid| Task::open(pid).ok()).is_some_and(|process| runs(&process))
}

pub(super) fn pid_in(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Whether a process that is held has not ended; one that was not waited for has.
fn runs(process: &Task) -> bool {
    process.stat().is_ok_and(|stat| !stat.has_ended())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_the_next_of_its_number() {
        let own = Creator::own();
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
        let ids = IdLines { uids: line(65_536 * 7), gids: line(65_536 * 7) };
        assert_eq!(init_of(&file, &ids), None);
        assert!(someone_in(&file) && !someone_in(Path::new("/no/such")));
    }
}
