use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use kernel::Process;
use kernel::namespace::PidInit;
use monitor::{MonitorRecord, SharedPid};
use rustix::process::{Pid, Signal};

/// The process that keeps the PID namespace which a pod's containers share.
pub(crate) struct Shared {
    process: Process,
    /// Until it is recorded, it is killed with this process.
    new: Option<PidInit>,
}

impl Shared {
    /// The one that an earlier monitor of this pod has started, or a new one.
    pub(crate) fn find_or_start(dir: &Path, owner: &SharedPid) -> Result<Self, String> {
        if let Some(process) = earlier(dir) {
            return Ok(Self { process, new: None });
        }
        let userns = match owner {
            SharedPid::Host => None,
            SharedPid::Userns(path) => Some(
                File::open(path)
                    .map_err(|error| format!("cannot open user namespace {}: {error}", path.display()))?,
            ),
        };
        let init = PidInit::start(userns.as_ref().map(AsFd::as_fd)).map_err(|error| error.to_string())?;
        let process = Process::open(init.process.pid().unsigned_abs()).map_err(|error| error.to_string())?;
        Ok(Self { process, new: Some(init) })
    }

    /// It is recorded: a later monitor finds it, so that it may outlive this one.
    pub(crate) fn recorded(&mut self) -> Result<(), String> {
        let Some(mut new) = self.new.take() else { return Ok(()) };
        new.detach().map_err(|error| error.to_string())
    }

    /// Its PID, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        let lives = self.process.is_running().unwrap_or(false);
        lives.then(|| self.process.pid().unsigned_abs())
    }

    pub(crate) fn is(&self, pid: Pid) -> bool {
        self.process.pid() == pid.as_raw_nonzero().get()
    }

    /// Kills it, and with it every process of its namespace.
    pub(crate) fn end(self) {
        let _ = self.process.signal(Signal::KILL);
    }
}

/// Checked after it is opened by pidfd: until then its PID might be reused.
fn earlier(dir: &Path) -> Option<Process> {
    let id = MonitorRecord::read(dir).ok()??.pid_namespace?;
    let process = Process::open(id.pid).ok()?;
    (id.is_same() && process.is_running().ok()?).then_some(process)
}
