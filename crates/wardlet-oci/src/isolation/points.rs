//! Checks the mount points in a container's root filesystem before a runtime mounts anything there.
//!
//! A runtime runs as the host's root while it populates `/dev`: runc 1.1 appends `dev/ptmx` and other names to the path
//! of the root filesystem, removes existing files and creates symlinks. If the image has a symlink at `/dev`, this
//! happens in a directory of the host.

use std::path::{Component, Path, PathBuf};

use kernel::{Dir, LastLink, Within};
use rustix::io::Errno;
use serde_json::Value;

use super::{Error, Result};

/// The directories that every container has.
const DIRECTORIES: [&str; 3] = ["dev", "proc", "sys"];

/// Refuses a root filesystem in which the path to one of these directories, or to a mount point below one, has a
/// symlink. Also refuses a mount point that a symlink resolves to `/` itself: the mount would bring a `/dev` of its
/// own. The runtime resolves other symlinks inside the root filesystem.
pub(super) fn check(rootfs: &Path, spec: &Value) -> Result<()> {
    let root = Dir::open(rootfs)?;
    for name in DIRECTORIES.map(Path::new) {
        match root.open_below(name, Within::NoLinks) {
            Err(kernel::Error::Below { errno: Errno::LOOP | Errno::NOTDIR, .. }) => {
                return Err(no_directory(name));
            }
            Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {}
            opened => drop(opened?),
        }
    }
    let targets: Vec<PathBuf> =
        spec.get("mounts").and_then(Value::as_array).into_iter().flatten().filter_map(target).collect();
    for (target, number) in targets.iter().zip(0..) {
        let is_of_runtime = DIRECTORIES.iter().any(|name| target.starts_with(name));
        // Files of the image below an earlier mount are not visible.
        let is_covered = targets.iter().take(number).any(|other| target.starts_with(other));
        if is_of_runtime && !is_covered && is_by_link(&root, target)? {
            return Err(no_directory(target));
        }
        if is_root(&root, target)? {
            return Err(Error::OverRoot { target: Path::new("/").join(target) });
        }
    }
    Ok(())
}

/// The destination of a mount, relative to the root filesystem.
fn target(mount: &Value) -> Option<PathBuf> {
    let mut below = PathBuf::new();
    for part in Path::new(mount.get("destination")?.as_str()?).components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => drop(below.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(below)
}

fn is_by_link(root: &Dir, target: &Path) -> Result<bool> {
    match root.node(target, Within::NoLinks, LastLink::Follow) {
        Err(kernel::Error::Below { errno: Errno::LOOP, .. }) => Ok(true),
        Err(kernel::Error::Below { errno: Errno::NOENT | Errno::NOTDIR, .. }) => Ok(false),
        opened => Ok(opened.map(|_| false)?),
    }
}

fn is_root(root: &Dir, target: &Path) -> Result<bool> {
    match root.node(target, Within::AsRoot, LastLink::Follow) {
        Ok(node) => Ok(node.stat()?.same_file(&root.stat()?)),
        // The runtime creates a missing mount point, and refuses one that cannot be reached.
        Err(kernel::Error::Below { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn no_directory(name: &Path) -> Error {
    container::Error::NotADirectory { path: Path::new("/").join(name) }.into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    /// A root filesystem with this link, and with the directories that it does not replace.
    fn image(link: &str, to: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["dev", "proc", "sys", "run", "data"].into_iter().filter(|name| *name != link) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::create_dir_all(dir.path().join(link).parent().unwrap()).unwrap();
        symlink(to, dir.path().join(link)).unwrap();
        dir
    }

    fn said(link: &str, to: &str, targets: &[&str]) -> Option<String> {
        let mounts: Vec<Value> = targets.iter().map(|target| json!({"destination": target})).collect();
        check(image(link, to).path(), &json!({"mounts": mounts})).err().map(|error| error.to_string())
    }

    #[test]
    fn dev_proc_and_sys_are_directories_or_missing() {
        for name in ["dev", "proc", "sys"] {
            for to in ["/tmp", "../../../../tmp", "data", "/", "nowhere"] {
                let expected = format!("/{name} of the image is not a directory");
                assert_eq!(said(name, to, &["/dev", "/proc", "/sys"]), Some(expected.clone()), "{to}");
                assert_eq!(said(name, to, &[]), Some(expected), "{to}");
            }
        }
        let empty = tempfile::tempdir().unwrap();
        check(empty.path(), &json!({})).unwrap();
        fs::write(empty.path().join("dev"), "").unwrap();
        assert!(check(empty.path(), &json!({})).is_err());
    }

    #[test]
    fn links_below_them_count_where_they_are_mounted_on_and_nothing_covers_them() {
        let cgroup = "/sys/fs/cgroup of the image is not a directory";
        assert_eq!(said("sys/fs/cgroup", "/tmp", &["/sys/fs/cgroup"]).as_deref(), Some(cgroup));
        assert_eq!(said("sys/fs", "/tmp", &["/sys//./fs/cgroup"]).as_deref(), Some(cgroup));
        assert_eq!(said("sys/fs/cgroup", "/tmp", &["/sys/fs/cgroup", "/sys"]).as_deref(), Some(cgroup));
        assert_eq!(said("sys/fs/cgroup", "/tmp", &["/sys", "/sys/fs/cgroup"]), None);
        assert_eq!(said("dev/shm", "/run/shm", &["/dev", "/dev/shm"]), None);
        assert_eq!(said("dev/shm", "/run/shm", &[]), None);
    }

    #[test]
    fn other_links_are_the_runtimes_to_follow_but_none_to_the_root() {
        assert_eq!(said("var/run", "/run", &["/var/run/secrets", "/dev"]), None);
        assert_eq!(said("var/lock", "../run/lock", &["/var/lock"]), None);
        for (link, to) in [("mnt", "/"), ("mnt", "."), ("mnt", "../../..")] {
            let expected = "/mnt cannot be mounted on: it leads to the container's / itself";
            assert_eq!(said(link, to, &["/mnt"]).as_deref(), Some(expected), "{to}");
        }
        assert!(said("mnt", "/", &["/data/.."]).is_some());
    }
}
