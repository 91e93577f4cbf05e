//! The kernel's first move of a process between groups waits until every core has been idle or elsewhere for a moment,
//! 6 to 18 ms where it was traced; moves that follow it closely wait for nothing. Whoever will have a process moved soon has that wait begun
//! here, so that it passes while the rest of a container is prepared.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Hierarchies;
use super::files::try_write;
use super::find::{Hierarchy, Kind};

/// A container's process is moved this long after its container was ordered, at the latest; later it waits as ever.
const AHEAD: Duration = Duration::from_millis(60);
/// What the kernel keeps ready after a move, it keeps for longer than this.
const PAUSE: Duration = Duration::from_millis(3);

/// Has moves into groups wait less.
#[derive(Debug, Clone, Default)]
pub struct Eager(Arc<Mutex<Wanted>>);

#[derive(Debug, Default)]
struct Wanted {
    until: Option<Instant>,
    /// Also once the kernel has refused: it would again.
    is_at_work: bool,
}

impl Eager {
    /// A process will be moved within the next moment. Returns at once. Where the kernel does not let us, nothing is won
    /// and nothing is lost.
    pub fn soon(&self, hierarchies: &Hierarchies) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.until = Some(Instant::now() + AHEAD);
        if !wanted.is_at_work {
            let (eager, hierarchies) = (self.clone(), hierarchies.clone());
            let work = move || while move_nowhere(&hierarchies).is_some() && eager.is_wanted() {};
            wanted.is_at_work = std::thread::Builder::new().name("eager".to_owned()).spawn(work).is_ok();
        }
    }

    /// After a pause.
    fn is_wanted(&self) -> bool {
        sleep(PAUSE);
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.is_at_work = wanted.until.is_some_and(|until| Instant::now() < until);
        wanted.is_at_work
    }
}

/// Moves this process to where it is: to the kernel that is a move like any other, and nothing changes.
fn move_nowhere(hierarchies: &Hierarchies) -> Option<()> {
    try_write(&own(hierarchies)?, "0").ok()
}

/// The list of processes of a group that we are in. It is looked for anew each time, and we must be in it: nobody who has
/// moved us is to find us back where we were.
fn own(hierarchies: &Hierarchies) -> Option<PathBuf> {
    let said = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = std::process::id().to_string();
    let is_in =
        |list: &PathBuf| fs::read_to_string(list).is_ok_and(|pids| pids.lines().any(|pid| pid == own));
    hierarchies.all().iter().filter_map(|hierarchy| list(hierarchy, &said)).find(is_in)
}

/// Where the list of this hierarchy should be, by what the kernel says of a process: `number:controllers:path`, without
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
