//! Starts the RCU grace period of a cgroup migration early.
//!
//! The kernel's first write to a `cgroup.procs` waits for an RCU grace period, 6 to 18 ms where it was traced;
//! migrations that follow closely do not wait. A caller that is about to migrate a process starts that wait here, and
//! prepares the rest of the container meanwhile.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::files::try_write;
use crate::find::Hierarchies;
use crate::find::{Hierarchy, Kind};

/// How long the grace period is kept open after the last request. A migration after that waits as usual.
const AHEAD: Duration = Duration::from_millis(60);
/// The time between two migrations. The kernel stays in the fast mode for longer than this.
const PAUSE: Duration = Duration::from_millis(3);

/// Shortens the wait of cgroup migrations that follow a call to [`Eager::soon`]. Clones share one worker thread.
#[derive(Debug, Clone, Default)]
pub struct Eager(Arc<Mutex<Wanted>>);

#[derive(Debug, Default)]
struct Wanted {
    until: Option<Instant>,
    /// True while the worker thread runs, and for ever once the kernel has refused a migration.
    is_at_work: bool,
}

impl Eager {
    /// Announces that a process will be migrated within the next 60 ms. Returns at once: a worker thread does the
    /// work. Where the kernel refuses the migration, the later one takes its usual time.
    pub fn soon(&self, hierarchies: &Hierarchies) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.until = Some(Instant::now() + AHEAD);
        if !wanted.is_at_work {
            let (eager, hierarchies) = (self.clone(), hierarchies.clone());
            let work = move || while move_nowhere(&hierarchies).is_some() && eager.is_wanted() {};
            wanted.is_at_work = std::thread::Builder::new().name("eager".to_owned()).spawn(work).is_ok();
        }
    }

    /// Sleeps for [`PAUSE`], then says whether a caller still expects a migration.
    fn is_wanted(&self) -> bool {
        sleep(PAUSE);
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.is_at_work = wanted.until.is_some_and(|until| Instant::now() < until);
        wanted.is_at_work
    }
}

/// Migrates this process to the cgroup that it is in: the kernel enters the fast mode, and nothing else changes.
fn move_nowhere(hierarchies: &Hierarchies) -> Option<()> {
    try_write(&own(hierarchies)?, "0").ok()
}

/// The `cgroup.procs` of a cgroup that this process is in. It is read anew each time, and must list this process: if
/// another process migrates us, the next write must not undo that.
fn own(hierarchies: &Hierarchies) -> Option<PathBuf> {
    let said = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = std::process::id().to_string();
    let is_in =
        |list: &PathBuf| fs::read_to_string(list).is_ok_and(|pids| pids.lines().any(|pid| pid == own));
    hierarchies.all().iter().filter_map(|hierarchy| list(hierarchy, &said)).find(is_in)
}

/// The path of `cgroup.procs` in this hierarchy by the lines of `/proc/self/cgroup`: `number:controllers:path`, without
/// controllers for the unified hierarchy.
fn list(hierarchy: &Hierarchy, said: &str) -> Option<PathBuf> {
    let controllers = match hierarchy.kind {
        Kind::Split => hierarchy.controllers.join(","),
        Kind::Unified => String::new(),
    };
    let path = said.lines().find_map(|line| {
        let (its, path) = line.split_once(':')?.1.split_once(':')?;
        (its == controllers).then_some(path)
    })?;
    Some(hierarchy.root.join(path.trim_start_matches('/')).join("cgroup.procs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(controllers: &[&str], kind: Kind) -> Option<PathBuf> {
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        let said = "4:memory:/a:b\n3:cpu,cpuacct:/c\n1:name=systemd:/\n0::/d\n";
        list(&Hierarchy { root: "/g".into(), controllers, kind }, said)
    }

    #[test]
    fn the_own_group_is_found_in_each_kind_of_hierarchy() {
        let list = |dir: &str| Some(PathBuf::from(format!("/g{dir}/cgroup.procs")));
        assert_eq!(found(&["memory"], Kind::Split), list("/a:b"));
        assert_eq!(found(&["cpu", "cpuacct"], Kind::Split), list("/c"));
        assert_eq!(found(&["name=systemd"], Kind::Split), list(""));
        assert_eq!(found(&["memory", "pids"], Kind::Unified), list("/d"));
        assert_eq!(found(&["cpu"], Kind::Split), None);
    }
}
