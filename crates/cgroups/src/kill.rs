use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::{Error, Result};
use crate::files::{read, tree, try_write};
use crate::find::Kind;
use crate::group::Group;

/// How long killed processes may take to exit: a process in an uninterruptible wait exits late.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Group {
    /// PIDs of the processes in it and in the groups below it, in any hierarchy. Fails if a `cgroup.procs` cannot be
    /// read; a group that does not exist has no processes.
    pub fn processes(&self) -> Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        for place in &self.places {
            for dir in tree(&place.dir)? {
                let text = read(&dir.join("cgroup.procs"))?.unwrap_or_default();
                // 0 stands for a process outside of this PID namespace, which cannot be signalled from here.
                found
                    .extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0));
            }
        }
        Ok(found)
    }

    /// Kills all processes in it and below, and returns when they have exited. `cgroup.kill` and the freezer keep them
    /// from forking meanwhile. Fails with [`Error::StillRunning`] after 10 s.
    pub fn kill_all(&self) -> Result<()> {
        let since = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let left = self.kill_once()?;
            if left.is_empty() {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                let processes = left.into_iter().collect();
                return Err(Error::StillRunning { path: self.path.clone(), processes });
            }
            sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Kills once, and returns the PIDs that the group had.
    fn kill_once(&self) -> Result<BTreeSet<u32>> {
        for place in self.places.iter().filter(|place| place.hierarchy.kind == Kind::Unified) {
            // Since Linux 5.14. On older kernels the loop below kills the processes one by one.
            let _ = try_write(&place.dir.join("cgroup.kill"), "1");
        }
        self.freeze(Frozen::Yes);
        let killed = self.kill_found();
        // A process that the v1 freezer holds exits only after it is thawed.
        self.freeze(Frozen::No);
        killed
    }

    /// A PID may be reused before it is signalled. A PID that is in the group after its pidfd was opened belongs to the
    /// process of that pidfd.
    fn kill_found(&self) -> Result<BTreeSet<u32>> {
        let held: Vec<_> = self.processes()?.into_iter().filter_map(|pid| Some((pid, hold(pid)?))).collect();
        let still = self.processes()?;
        for (_, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
            // An error means that the process has exited already.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        Ok(still)
    }

    /// Freezes or thaws the group where the kernel can. Errors are ignored: the caller kills in a loop anyway.
    fn freeze(&self, frozen: Frozen) {
        for place in &self.places {
            let (file, value) = match (place.hierarchy.kind, frozen) {
                (Kind::Unified, Frozen::Yes) => ("cgroup.freeze", "1"),
                (Kind::Unified, Frozen::No) => ("cgroup.freeze", "0"),
                (Kind::Split, _) if !place.has("freezer") => continue,
                (Kind::Split, Frozen::Yes) => ("freezer.state", "FROZEN"),
                (Kind::Split, Frozen::No) => ("freezer.state", "THAWED"),
            };
            let _ = try_write(&place.dir.join(file), value);
        }
    }
}

#[derive(Clone, Copy)]
enum Frozen {
    Yes,
    No,
}

fn hold(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}
