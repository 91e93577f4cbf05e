use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::stat::Stat;
use crate::task::Task;

/// A process that cannot be confused with a later one of the same number, within one boot.
///
/// Records keep it together with the boot ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessId {
    /// Its process ID.
    pub pid: u32,
    /// When it was started, in clock ticks since boot.
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this number now, also if it has ended and was not waited for.
    pub fn of(pid: u32) -> Result<Self> {
        let Stat { start_time, .. } = Task::open(pid)?.stat()?;
        Ok(Self { pid, start_time })
    }

    /// The calling process.
    pub fn own() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// Whether the process that has the number now is this one, running or not waited for.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.stat().is_some()
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.stat().is_some_and(|stat| !stat.has_ended())
    }

    fn stat(&self) -> Option<Stat> {
        let stat = Task::open(self.pid).and_then(|task| task.stat()).ok()?;
        (stat.start_time == self.start_time).then_some(stat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_the_next_of_its_number() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_same() && own.is_running());
        assert!(!ProcessId { start_time: own.start_time + 1, ..own }.is_same());
        assert!(!ProcessId { pid: u32::MAX, ..own }.is_same());
        assert!(ProcessId::of(u32::MAX).is_err());
    }

    #[test]
    fn a_process_that_was_not_waited_for_is_the_same_and_does_not_run() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert!(id.is_running());
        child.kill().unwrap();
        while id.is_running() {
            std::thread::yield_now();
        }
        assert!(id.is_same());
        child.wait().unwrap();
        assert!(!id.is_same());
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        let text = r#"{"pid":17,"startTime":4242}"#;
        let id: ProcessId = serde_json::from_str(text).unwrap();
        assert_eq!(id, ProcessId { pid: 17, start_time: 4242 });
        assert_eq!(serde_json::to_string(&id).unwrap(), text);
    }
}
