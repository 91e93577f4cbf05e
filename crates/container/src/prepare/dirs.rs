//! The directories that every container has, and that engines join paths to without a look.

use std::path::Path;

use kernel::{Dir, Owner, Within, making_files_as};
use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use crate::container_spec::ContainerSpec;
use crate::error::{Error, Result};

const NAMES: [&str; 3] = ["dev", "proc", "sys"];
/// With the usual umask, as every caller has it.
const MODE: Mode = Mode::from_raw_mode(0o755);

/// Sees to it that each is a directory of the container's own `/`. A link there would lead an engine, which is the
/// host's root, to files of the host.
pub(super) fn check(start: &ContainerSpec, rootfs: &Path) -> Result<()> {
    let (root, owner) = (Dir::open(rootfs)?, owner(start)?);
    NAMES.iter().try_for_each(|name| make(&root, name, owner).map(drop))
}

/// The directory of that name, made if it is missing.
pub(super) fn make(root: &Dir, name: &str, owner: Owner) -> Result<Dir> {
    making_files_as(owner, || below(root, Path::new(name)))?.map_err(|cause| match cause {
        kernel::Error::Below { errno: Errno::LOOP | Errno::NOTDIR, .. } => {
            Error::NotADirectory { path: Path::new("/").join(name) }
        }
        cause => cause.into(),
    })
}

/// The directory at `path`, created with all missing parents, with the filesystem IDs of this thread. No link is
/// followed. Each appears complete: a crash leaves no directory with another owner or mode.
pub(super) fn below(dir: &Dir, path: &Path) -> std::result::Result<Dir, kernel::Error> {
    let mut reached = dir.open_below(Path::new(""), Within::NoLinks)?;
    for name in path.components().map(|part| Path::new(part.as_os_str()).to_owned()) {
        match mkdirat(&reached, &name, MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(kernel::Error::MakeDir { path: reached.path().join(name), errno }),
        }
        reached = reached.open_below(&name, Within::NoLinks)?;
    }
    Ok(reached)
}

/// The container's root, in the host's numbers.
pub(super) fn owner(start: &ContainerSpec) -> Result<Owner> {
    let Some(ids) = &start.ids else { return Ok(Owner::ROOT) };
    Ok(Owner {
        uid: ids.host_user(0).ok_or(Error::RootUnmapped { kind: "user" })?,
        gid: ids.host_group(0).ok_or(Error::RootUnmapped { kind: "group" })?,
    })
}
