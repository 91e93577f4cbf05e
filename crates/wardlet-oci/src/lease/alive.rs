//! Whether a pod is there, by evidence that no other process can give.

use std::path::Path;

use bundle::IdLines;
use ids::IdMapping;
use ids::parse::proc_map::parse_proc_map;
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
        Self { pid, began: began(pid).unwrap_or_default() }
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
        began(self.pid) == Some(self.began)
    }
}

/// The first process of a container, if it is there: the one that the runtime wrote down, and that has the
/// pod's maps. No other pod's process has these.
#[must_use]
pub fn init_of(pid_file: &Path, ids: &IdLines) -> Option<u32> {
    let pid = pid_in(pid_file)?;
    let maps = |file: &str| -> Option<Vec<IdMapping>> {
        parse_proc_map(&std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?).ok()
    };
    (maps("uid_map")? == ids.uids && maps("gid_map")? == ids.gids && runs(pid)).then_some(pid)
}

/// Whether the process in this file runs, whoever it is.
#[must_use]
pub(super) fn someone_in(pid_file: &Path) -> bool {
    pid_in(pid_file).is_some_and(runs)
}

pub(super) fn pid_in(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// A process that has ended and was not asked for its code does not run.
fn runs(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

fn began(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    if matches!(fields.first().map(String::as_str), Some("Z" | "X")) {
        return None;
    }
    // The 22nd of all, the first two of which are not in here.
    fields.get(19)?.parse().ok()
}

/// What the kernel says of a process, from its state on: its name may hold anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
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
