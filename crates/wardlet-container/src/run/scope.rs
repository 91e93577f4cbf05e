//! The scope around a container, which systemd makes of a process that only waits.
//!
//! That process is not this program: an engine that fails kills all that is in the container's cgroup, and this program has to
//! report why. What a container may use does not limit this program either.

use std::process::{Child, Command, Stdio};

use cgroups::systemd::Unit;
use cgroups::{Group, Groups};
use container::Cgroup;

use super::TOO_LITTLE;
use crate::failure::Failure;

/// The word that makes this program wait until it is killed.
pub(crate) const HOLD: &str = "hold-scope";
const OWN: &str = "/proc/self/exe";

/// A process that holds the scope of a container until a process of the container is there. It ends when this is dropped,
/// or with this process.
#[derive(Debug)]
pub(super) struct Holder {
    process: Child,
    /// The cgroup that it is in, once it is.
    group: Option<Group>,
}

impl Holder {
    /// Makes the scope around this cgroup, with its shares, and the cgroup. `None` for a cgroup that is in no scope.
    pub(super) fn of(cgroup: &Cgroup) -> Result<Option<Self>, Failure> {
        if Unit::around(&cgroup.path)?.is_none() {
            return Ok(None);
        }
        let mut command = Command::new(OWN);
        command.arg(HOLD).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = kernel::die_with_parent(&mut command).spawn();
        let process =
            process.map_err(|cause| Failure::during("cannot start a process to hold a scope", cause))?;
        let mut holder = Self { process, group: None };
        match Groups::find()?.make_scope(&cgroup.path, holder.process.id(), &cgroup.resources) {
            Ok(group) => holder.group = Some(group),
            Err(error) => {
                holder.is_there()?;
                return Err(error.into());
            }
        }
        Ok(Some(holder))
    }

    /// Fails if it has ended: systemd has removed the scope then, and what is in the place of its cgroup is none of its own.
    pub(super) fn is_there(&mut self) -> Result<(), Failure> {
        let failed = |cause| Failure::during("cannot look at the process that holds the scope", cause);
        match self.process.try_wait().map_err(failed)? {
            None => Ok(()),
            Some(status) => {
                let what = format!("the process that holds the container's scope has ended: {status}");
                Err(Failure::of(what).hinted(TOO_LITTLE))
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail only for a process that has ended and was waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(group) = &self.group {
            // One that stays is removed with the scope.
            let _ = group.remove();
        }
    }
}

/// Waits until it is killed.
pub(crate) fn hold() -> ! {
    loop {
        rustix::event::pause();
    }
}
