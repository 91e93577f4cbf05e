//! The scope of a container, made by systemd around a process that only waits.
//!
//! systemd makes no scope without a process, and ends it with its last one. That process is not this program: an engine that
//! fails kills all that is in the container's cgroup, and this program has to report why. It is not limited by what the
//! container may use either.

use std::process::{Child, Command, Stdio};

use cgroups::Groups;
use cgroups::systemd::Unit;
use container::Cgroup;

use crate::failure::Failure;

/// The word that makes this program wait until it is killed.
pub(crate) const HOLD: &str = "hold-scope";
const OWN: &str = "/proc/self/exe";

/// A process that holds the scope of a container; it ends when this is dropped, or with this process.
#[derive(Debug)]
pub(super) struct Holder(Child);

impl Holder {
    /// Makes the scope that has this cgroup, with its limits. `None` for a cgroup that by its name is not a scope's.
    pub(super) fn of(cgroup: &Cgroup) -> Result<Option<Self>, Failure> {
        if !Unit::of(&cgroup.path)?.is_some_and(|unit| unit.is_scope()) {
            return Ok(None);
        }
        let mut command = Command::new(OWN);
        command.arg(HOLD).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = kernel::die_with_parent(&mut command).spawn();
        let holder =
            Self(child.map_err(|cause| Failure::during("cannot start a process for the scope", cause))?);
        Groups::find()?.make_scope(&cgroup.path, holder.0.id(), &cgroup.resources)?;
        Ok(Some(holder))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail only for a process that has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until it is killed.
pub(crate) fn hold() -> ! {
    loop {
        rustix::event::pause();
    }
}
