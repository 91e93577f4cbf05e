use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ids::HostId;
use tempfile::TempDir;

use crate::words::say;

/// Every directory, container and cgroup of a run starts with this, then has the process ID.
pub(crate) const NAME: &str = "wardlet-skeleton";

/// The directory with all that a run puts on disk. Gone when dropped.
pub(crate) struct Scratch {
    dir: TempDir,
}

impl Scratch {
    /// A new one under $TMPDIR or /var/tmp that the container's root `group` can pass through.
    pub(crate) fn new(group: HostId) -> anyhow::Result<Self> {
        let parent = parent();
        passable(&parent)?;
        let dir = tempfile::Builder::new()
            .prefix(&format!("{NAME}-{}-", std::process::id()))
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        chown(dir.path(), None, Some(group.get()))
            .and_then(|()| fs::set_permissions(dir.path(), Permissions::from_mode(0o710)))
            .with_context(|| format!("cannot open {} to the container", dir.path().display()))?;
        Ok(Self { dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A new directory in it, open to the eyes of all.
    pub(crate) fn directory(&self, name: &str) -> anyhow::Result<PathBuf> {
        directory(&self.path().join(name), 0o755)
    }

    pub(crate) fn remove(self) -> anyhow::Result<()> {
        let path = self.path().to_owned();
        self.dir.close().with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Makes the directory `path` with just this `mode`, whatever the umask.
pub(crate) fn directory(path: &Path, mode: u32) -> anyhow::Result<PathBuf> {
    fs::create_dir(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
        .with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path.to_owned())
}

/// Removes what runs that were killed have left. A run that is still alive keeps its own.
pub(crate) fn sweep() -> anyhow::Result<()> {
    let parent = parent();
    let entries = fs::read_dir(&parent).with_context(|| format!("cannot list {}", parent.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", parent.display()))?.path();
        if left_behind(&path) {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            say(&format!("removed {}, left by a run that was killed", path.display()));
        }
    }
    Ok(())
}

/// The process that the name of something made by a run speaks of.
pub(crate) fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}

pub(crate) fn alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn left_behind(path: &Path) -> bool {
    let dead = path.file_name().and_then(|n| n.to_str()).and_then(maker).is_some_and(|pid| !alive(pid));
    // /var/tmp is everybody's: only what root made is ours.
    dead && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == 0)
}

fn parent() -> PathBuf {
    env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// The container's root is nobody special on the host: each directory above must let all through.
fn passable(parent: &Path) -> anyhow::Result<()> {
    let parent = fs::canonicalize(parent).with_context(|| format!("cannot find {}", parent.display()))?;
    for dir in parent.ancestors() {
        let mode = fs::metadata(dir).with_context(|| format!("cannot read {}", dir.display()))?.mode();
        if mode & 0o001 == 0 {
            bail!(
                "the container could not pass {} (mode {:04o}): set TMPDIR to a directory that is open to all",
                dir.display(),
                mode & 0o7777
            );
        }
    }
    Ok(())
}
