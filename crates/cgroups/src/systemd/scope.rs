//! The scope of a container, made around the process that starts it.
//!
//! systemd makes no scope without a process, and ends it with its last one. So the process that starts a container enters
//! the scope first, and leaves it when the container's own process is in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::Systemd;
use super::names::Unit;
use crate::error::{Error, Result};
use crate::files::try_write;
use crate::find::{Hierarchies, Kind};
use crate::resources::Resources;

const PROCESSES: &str = "cgroup.procs";
const OWN: &str = "/proc/self/cgroup";

/// This process is in the scope of a container. It leaves it when this is dropped.
#[derive(Debug)]
pub struct InScope {
    /// The list of processes of the cgroup that it came from, and that of the root.
    ways_out: [PathBuf; 2],
}

impl InScope {
    /// Makes the scope that has the cgroup at `path`, with these limits, and enters it. `None` if that is not the path of a
    /// scope.
    ///
    /// # Errors
    /// [`Error::NoSystemd`] if process 1 is not systemd. [`Error::Systemd`] if systemd does not make it.
    pub fn enter(hierarchies: &Hierarchies, path: &str, limits: &Resources) -> Result<Option<Self>> {
        let Some(unit) = Unit::of(path)?.filter(Unit::is_scope) else { return Ok(None) };
        let systemd = Systemd::of_host().ok_or(Error::NoSystemd)?;
        let unified = hierarchies.all().iter().find(|hierarchy| hierarchy.kind == Kind::Unified);
        let root = &unified.ok_or(Error::NoSystemd)?.root;
        let own =
            fs::read_to_string(OWN).map_err(|cause| Error::File { what: "read", path: OWN.into(), cause })?;
        // It leaves the scope also if systemd makes it and reports an error.
        let inside = Self { ways_out: [own_procs(root, &own), root.join(PROCESSES)] };
        systemd.start_scope(&unit, std::process::id(), limits)?;
        Ok(Some(inside))
    }
}

fn own_procs(root: &Path, own: &str) -> PathBuf {
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    root.join(path.trim_start_matches('/')).join(PROCESSES)
}

impl Drop for InScope {
    fn drop(&mut self) {
        // The one that it came from may be gone.
        let _ = self.ways_out.iter().any(|procs| try_write(procs, "0").is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_leads_to_the_cgroup_that_the_process_came_from() {
        let root = Path::new("/sys/fs/cgroup");
        let procs = |own| own_procs(root, own);
        assert_eq!(procs("0::/system.slice/a.service\n"), root.join("system.slice/a.service/cgroup.procs"));
        assert_eq!(procs("0::/\n"), root.join("cgroup.procs"));
    }
}
