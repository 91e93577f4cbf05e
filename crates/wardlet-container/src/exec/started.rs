use std::path::Path;

use kernel::Process;
use procfs::ProcessId;
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
    if started.boot_id != procfs::boot_id(Path::new("/proc"))? {
        return Ok(None);
    }
    // Held first, then looked at: what is found is that of the process that is held.
    let Ok(process) = Process::open(started.pid) else { return Ok(None) };
    let same = ProcessId { pid: started.pid, start_time: started.start_time }.is_same();
    Ok((same && process.is_running()?).then_some(process))
}
