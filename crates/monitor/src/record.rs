//! The records of a monitor, for later readers.

use std::path::Path;

use procfs::ProcessId;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The version of all records.
pub const VERSION: u32 = 1;

/// The name of [`Started`] in a container's directory.
pub const STARTED: &str = "started.json";
/// The name of [`Exit`] in a container's directory.
pub const EXIT: &str = "exit.json";
/// The name of [`MonitorRecord`] in a pod's directory.
pub const MONITOR: &str = "monitor.json";
/// The name of the socket in a pod's directory.
pub const SOCKET: &str = "monitor.sock";
/// The name of a monitor's own log in a pod's directory.
pub const LOG: &str = "monitor.log";

/// Larger than any record.
const LARGEST: u64 = 64 * 1024;

/// The parent of a process, also of a zombie.
pub fn parent(pid: u32) -> Result<u32> {
    Ok(procfs::Task::open(pid)?.stat()?.parent)
}

/// The present boot of this machine.
pub fn boot_id() -> Result<String> {
    Ok(procfs::boot_id(Path::new("/proc"))?)
}

/// The user of a container's first process, by IDs inside the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The groups it is in beside that.
    #[serde(default)]
    pub groups: Vec<u32>,
}

/// `started.json`: a container that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// [`VERSION`].
    pub version: u32,
    /// Its first process.
    pub pid: u32,
    /// When that was started, in clock ticks since boot.
    pub start_time: u64,
    /// The boot it was started in.
    pub boot_id: String,
    /// When it was started, in nanoseconds since 1970.
    pub started_at: i64,
    /// The user of its first process, if the engine reports it.
    pub user: Option<User>,
}

impl Started {
    /// Of the container whose directory this is; `None` if it was not started.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        read(&dir.join(STARTED))
    }

    /// Its first process.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        ProcessId { pid: self.pid, start_time: self.start_time }
    }
}

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// The exit status is lost: the monitor died.
    Lost,
}

/// `exit.json`: a container that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenExit", into = "WrittenExit")]
pub struct Exit {
    /// How.
    pub ending: Ending,
    /// Whether the kernel killed something in its cgroup for want of memory.
    pub oom: bool,
    /// When, in nanoseconds since 1970.
    pub finished_at: i64,
    /// A message, such as a failure to write the log.
    pub message: Option<String>,
}

impl Exit {
    /// Of the container whose directory this is; `None` if it has not ended.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        read(&dir.join(EXIT))
    }

    /// The exit code as shells count: 128 and the signal's number. 255 if the exit status is lost.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self.ending {
            Ending::Code(code) => code,
            Ending::Signal(signal) => 128 + signal,
            Ending::Lost => 255,
        }
    }
}

/// [`Exit`] as it is written: one of `code`, `signal` and `lost`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenExit {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
    oom: bool,
    finished_at: i64,
    #[serde(default)]
    message: Option<String>,
}

impl From<Exit> for WrittenExit {
    fn from(exit: Exit) -> Self {
        let (mut code, mut signal) = (None, None);
        match exit.ending {
            Ending::Code(number) => code = Some(number),
            Ending::Signal(number) => signal = Some(number),
            Ending::Lost => {}
        }
        Self {
            version: VERSION,
            code,
            signal,
            lost: exit.ending == Ending::Lost,
            oom: exit.oom,
            finished_at: exit.finished_at,
            message: exit.message,
        }
    }
}

impl TryFrom<WrittenExit> for Exit {
    type Error = String;

    fn try_from(written: WrittenExit) -> Result<Self, String> {
        if written.version != VERSION {
            return Err(format!("version {} is not known", written.version));
        }
        let ending = match (written.code, written.signal, written.lost) {
            (Some(code), None, false) => Ending::Code(code),
            (None, Some(signal), false) => Ending::Signal(signal),
            (None, None, true) => Ending::Lost,
            _ => return Err("there must be one of code, signal and lost".to_owned()),
        };
        Ok(Self { ending, oom: written.oom, finished_at: written.finished_at, message: written.message })
    }
}

/// `monitor.json`: the monitor of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MonitorRecord {
    /// [`VERSION`].
    pub version: u32,
    /// The monitor.
    #[serde(flatten)]
    pub process: ProcessId,
    /// The process that keeps the pod's shared PID namespace.
    #[serde(default)]
    pub pid_namespace: Option<ProcessId>,
}

impl MonitorRecord {
    /// Of the pod whose directory this is; `None` if it never had a monitor.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        read(&dir.join(MONITOR))
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>> {
    let Some(text) = durable::read(path, LARGEST)? else { return Ok(None) };
    match serde_json::from_slice(&text) {
        Ok(record) => Ok(Some(record)),
        Err(error) => Err(Error::Record { path: path.to_owned(), why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_written_as_one_of_three() {
        let text = |ending| {
            let exit = Exit { ending, oom: false, finished_at: 7, message: None };
            let text = serde_json::to_string(&exit).unwrap();
            assert_eq!(serde_json::from_str::<Exit>(&text).unwrap(), exit);
            text
        };
        assert_eq!(
            text(Ending::Code(3)),
            r#"{"version":1,"code":3,"oom":false,"finishedAt":7,"message":null}"#
        );
        assert_eq!(
            text(Ending::Signal(9)),
            r#"{"version":1,"signal":9,"oom":false,"finishedAt":7,"message":null}"#
        );
        assert_eq!(
            text(Ending::Lost),
            r#"{"version":1,"lost":true,"oom":false,"finishedAt":7,"message":null}"#
        );
    }

    #[test]
    fn an_exit_that_says_two_things_or_nothing_is_refused() {
        for wrong in [r#""code":1,"signal":9,"#, r#""code":1,"lost":true,"#, "", r#""lost":false,"#] {
            let text = format!(r#"{{"version":1,{wrong}"oom":false,"finishedAt":7}}"#);
            assert!(serde_json::from_str::<Exit>(&text).is_err(), "{text}");
        }
        assert!(
            serde_json::from_str::<Exit>(r#"{"version":2,"code":1,"oom":false,"finishedAt":7}"#).is_err()
        );
    }
}
