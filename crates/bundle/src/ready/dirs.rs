//! The directories that every container has, and that engines join paths to without a look.

use std::path::Path;

use kernel::{Dir, DirMode, Owner};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::maps::host_of;
use crate::start::Start;

const NAMES: [&str; 3] = ["dev", "proc", "sys"];
const MODE: u32 = 0o755;

/// Sees to it that each is a directory of the container's own `/`. A link there would lead an engine, which is the
/// host's root, to files of the host.
pub(super) fn check(start: &Start, rootfs: &Path) -> Result<()> {
    let (root, owner) = (Dir::open(rootfs)?, owner(start)?);
    NAMES.iter().try_for_each(|name| make(&root, name, owner).map(drop))
}

/// The directory of that name, made if it is missing.
pub(super) fn make(root: &Dir, name: &str, owner: Owner) -> Result<Dir> {
    let like = DirMode { mode: MODE, owner: Some(owner) };
    root.make_dirs(Path::new(name), like).map_err(|cause| match cause {
        kernel::Error::Below { errno: Errno::LOOP | Errno::NOTDIR, .. } => {
            Error::NotADirectory { path: Path::new("/").join(name) }
        }
        cause => cause.into(),
    })
}

/// The container's root, in the host's numbers.
pub(super) fn owner(start: &Start) -> Result<Owner> {
    let Some(ids) = &start.ids else { return Ok(Owner::ROOT) };
    Ok(Owner {
        uid: host_of(&ids.uids, 0).ok_or(Error::RootUnmapped { kind: "user" })?,
        gid: host_of(&ids.gids, 0).ok_or(Error::RootUnmapped { kind: "group" })?,
    })
}
