use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Group;
use super::files::{read, tree, try_write};
use super::find::Kind;
use crate::error::{Error, Result};

/// How long processes may take to be gone that were killed: one that waits for a device takes its time.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Group {
    /// The processes in it and in the groups below it, in any hierarchy.
    pub fn processes(&self) -> Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        for place in &self.places {
            for dir in tree(&place.dir)? {
                let text = read(&dir.join("cgroup.procs"))?.unwrap_or_default();
                // 0 is a process that cannot be seen from here, and not to be reached by number.
                found
                    .extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0));
            }
        }
        Ok(found)
    }

    /// Kills all processes in it and below, and returns when they are gone. They cannot outrun it by
    /// starting others: those in a group that the kernel can kill or freeze as a whole do not get to.
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

    /// Those that it had.
    fn kill_once(&self) -> Result<BTreeSet<u32>> {
        for place in self.places.iter().filter(|place| place.hierarchy.kind == Kind::Unified) {
            // Since Linux 5.14; where it is not there, those found below are killed one by one.
            let _ = try_write(&place.dir.join("cgroup.kill"), "1");
        }
        self.freeze(Frozen::Yes);
        let killed = self.kill_found();
        // Frozen by version 1, they die only when they are let go.
        self.freeze(Frozen::No);
        killed
    }

    /// A number may be another's by the time it is used. One that is in the group after its process is
    /// held stands for that process.
    fn kill_found(&self) -> Result<BTreeSet<u32>> {
        let held: Vec<_> = self.processes()?.into_iter().filter_map(|pid| Some((pid, hold(pid)?))).collect();
        let still = self.processes()?;
        for (_, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
            // One that is gone already is as good.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        Ok(still)
    }

    /// One that cannot be frozen is killed as it runs, and again if it started others meanwhile.
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
