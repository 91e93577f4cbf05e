use std::path::Path;

use kernel::Process;
use serde::Deserialize;

use crate::failure::Failure;
use crate::files::{self, STARTED};

/// What the monitor wrote down of a container that it started.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    pid: u32,
    start_time: u64,
    boot_id: String,
}

/// The first process of a container, if it runs.
pub(crate) fn running(dir: &Path) -> Result<Option<Process>, Failure> {
    let path = dir.join(STARTED);
    if !path.exists() {
        return Ok(None);
    }
    let started: Started = files::json(&path)?;
    if started.boot_id != boot_id()? {
        return Ok(None);
    }
    // Held first, then looked at: what is found is that of the process that is held.
    let Ok(process) = Process::open(started.pid) else { return Ok(None) };
    let same = start_time(started.pid) == Some(started.start_time);
    Ok((same && process.is_running()?).then_some(process))
}

fn boot_id() -> Result<String, Failure> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path);
    text.map(|text| text.trim().to_owned())
        .map_err(|cause| Failure::during(&format!("cannot read {path}"), cause))
}

/// A process's name may hold anything: what counts is behind its last bracket.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(behind + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}
