use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::{Access, Filesystem, FilesystemKind, Flags, FsOption};
use rustix::fs::{Mode, OFlags};

use crate::container_spec::Rootfs;
use crate::error::{Error, Result};

/// An overlay as mount(2) makes it, for settings that are not those of every container.
pub(super) struct Plain<'a> {
    pub(super) lowers: &'a [PathBuf],
    pub(super) changes: Option<&'a Rootfs>,
    pub(super) label: Option<&'a str>,
}

impl Plain<'_> {
    /// Mounts it at `point`. Layers are named by descriptor: no path is too long then, and none needs
    /// escapes.
    pub(super) fn mount_at(&self, point: &Path) -> Result<()> {
        let mut held = Vec::new();
        let lowers = self.lowers.iter().map(|layer| name(layer, &mut held)).collect::<Result<Vec<_>>>()?;
        let mut options = vec![FsOption::new("lowerdir", lowers.join(":"))];
        if let Some(changes) = self.changes {
            options.push(FsOption::new("upperdir", name(&changes.upper, &mut held)?));
            options.push(FsOption::new("workdir", name(&changes.work, &mut held)?));
            // What only changes owner is not copied whole, and stays one file with all its names.
            options.push(FsOption::new("metacopy", "on"));
            options.push(FsOption::new("index", "on"));
        }
        let access = if self.changes.is_some() { Access::ReadWrite } else { Access::ReadOnly };
        let kind = FilesystemKind::Other { name: "overlay".to_owned(), source: None, options };
        Filesystem { kind, context: self.label.map(str::to_owned), access, flags: Flags::NODEV }
            .mount_at(point)?;
        Ok(())
    }
}

fn name(dir: &Path, held: &mut Vec<OwnedFd>) -> Result<String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(|errno| Error::File {
        what: "open",
        path: dir.to_owned(),
        cause: errno.into(),
    })?;
    let name = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
    held.push(fd);
    Ok(name)
}
