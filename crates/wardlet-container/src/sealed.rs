//! This program's own file, out of the containers' reach.
//!
//! A container's process can come to run this program: as `/proc/self/exe`, by way of a script that names
//! it. It could then open the file it runs from, and overwrite it once it has ended, if it is the host's
//! root. So this program always runs through a mount that is read-only and that nothing else can reach.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use kernel::{Access, Attributes, DetachedMount, Source, Submounts};
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::failure::Failure;

const OWN: &str = "/proc/self/exe";
/// The name under which this program starts itself.
const NAME: &str = "wardlet-container (read-only)";

/// Where its file was found.
pub(crate) const FILE: &str = "WARDLET_CONTAINER_FILE";

/// Returns if this program's file cannot be written through the mount that it runs from; else starts it
/// once more from one where that holds.
pub(crate) fn unwritable() -> Result<(), Failure> {
    let flags = statvfs(OWN).map_err(|errno| Failure::during("cannot look at this program's file", errno))?;
    if flags.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let mut words = std::env::args_os();
    if words.next().is_some_and(|name| name == NAME) {
        return Err(Failure::of("this program's file can be written through a mount that should forbid it"));
    }
    let mut mount = DetachedMount::clone_of(Source::Path(Path::new(OWN)), Submounts::Without)?;
    mount.set(&Attributes { access: Access::ReadOnly, ..Attributes::default() })?;
    let path = format!("/proc/self/fd/{}", mount.as_fd().as_raw_fd());
    // Seen through such a mount the file has no path.
    let file = std::fs::read_link(OWN).unwrap_or_default();
    let cause = Command::new(path).arg0(NAME).args(words).env(FILE, file).exec();
    Err(Failure::during("cannot start this program from a read-only mount", cause))
}
