use std::path::{Path, PathBuf};
use std::time::Instant;

use monitor::job::JobPart;
use monitor::{Ending, Exit, Started, Stdin, record};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Container, Draining, Memory, Parent, Running, Stage, now};
use crate::streams::Streams;

impl Container {
    /// A container that another monitor has started, by its records: it runs, or it has ended. Its exit status is
    /// known if that monitor recorded it, and otherwise lost.
    pub(crate) fn adopt(key: u64, name: String, dir: PathBuf, hierarchies: &Path) -> Result<Self, String> {
        let said = |error: monitor::Error| error.to_string();
        let stage = match Exit::read(&dir).map_err(said)? {
            Some(exit) => Stage::Ended(exit),
            None => {
                let started = Started::read(&dir).map_err(said)?;
                let started = started.ok_or_else(|| format!("container {name} was never started"))?;
                living(&started).map_or_else(|| Stage::Draining(lost(&started)), Stage::Running)
            }
        };
        // A cgroup that does not exist has counted nothing. One that exists was made for this container.
        let cgroup = JobPart::read(&dir).ok().map(|job| job.cgroup);
        let memory = Memory { hierarchies: hierarchies.to_owned(), cgroup, ..Memory::default() };
        Ok(Self {
            key,
            name,
            dir,
            stage,
            streams: Streams::default(),
            console: None,
            stdin: Stdin::None,
            memory,
            exit_record: None,
        })
    }
}

/// Its first process, if it is still the one that was started. Checked after it is opened by pidfd: until then its PID
/// might be reused.
fn living(started: &Started) -> Option<Running> {
    let pid = i32::try_from(started.pid).ok().and_then(Pid::from_raw)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let same = started.process().is_same() && record::boot_id().is_ok_and(|boot| boot == started.boot_id);
    same.then_some(Running { pid, pidfd, helper: None, parent: Parent::Another })
}

/// It has ended, and its exit status is lost. The PID is for messages only.
fn lost(started: &Started) -> Draining {
    let pid = i32::try_from(started.pid).ok().and_then(Pid::from_raw).unwrap_or(Pid::INIT);
    Draining { pid, ending: Ending::Lost, finished_at: now(), until: Instant::now() }
}
