//! Paths of this node, and the filesystems that lie under them.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use census::HostRoot;
use kernel::{MountEntry, MountTable, Node};

/// Filesystems that files are kept on, and that have no block device of their own.
const WITHOUT_DEVICE: [&str; 15] = [
    "9p",
    "afs",
    "bcachefs",
    "btrfs",
    "ceph",
    "cifs",
    "fuse",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "virtiofs",
    "zfs",
    "fuse.glusterfs",
];

/// Whether this process runs as root: the owner of a process's own directory in /proc is its effective user.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// The path itself, or its nearest ancestor that exists, free of symbolic links.
#[must_use]
pub fn nearest_existing(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()?.ancestors().find_map(|above| above.canonicalize().ok())
}

/// The mount table of this process or of a host. It may be missing: then nothing is known of any mount.
#[derive(Debug, Default)]
pub struct Mounts(Option<MountTable>);

impl Mounts {
    /// Those of this process; none where that cannot be read.
    #[must_use]
    pub fn read() -> Self {
        Self(MountTable::read().ok())
    }

    /// Those of a host, whose first process says so where it is not our own; none where that cannot be read.
    #[must_use]
    pub fn of_host(host_root: &HostRoot) -> Self {
        if host_root.is_own() {
            return Self::read();
        }
        let text = std::fs::read_to_string(host_root.path("/proc/1/mountinfo"));
        Self(text.ok().and_then(|text| MountTable::parse(&text).ok()))
    }

    /// The filesystem that an existing path lies on.
    #[must_use]
    pub fn filesystem_under(&self, place: &Path) -> Option<&str> {
        let id = Node::open(place).ok()?.stat().ok()?.mount_id;
        self.0.as_ref()?.by_id(id).map(|mount| mount.filesystem.as_str())
    }

    /// The whole table; none where it cannot be read.
    #[must_use]
    pub fn table(&self) -> Option<&MountTable> {
        self.0.as_ref()
    }

    /// A place where this filesystem can be seen.
    #[must_use]
    pub fn place_of(&self, filesystem: &str) -> Option<&Path> {
        let mut places = self.iter().filter(|mount| mount.filesystem == filesystem);
        places.find(|mount| is_seen(mount)).map(|mount| mount.point.as_path())
    }

    /// Every filesystem that files are kept on, by name, with its mounts. No file is touched: a server that is
    /// gone would keep us waiting.
    #[must_use]
    pub fn kept_on(&self) -> BTreeMap<&str, Vec<&MountEntry>> {
        let mut found: BTreeMap<&str, Vec<&MountEntry>> = BTreeMap::new();
        for mount in self.iter().filter(|mount| keeps_files(mount)) {
            found.entry(&mount.filesystem).or_default().push(mount);
        }
        found
    }

    fn iter(&self) -> impl Iterator<Item = &MountEntry> {
        self.0.iter().flat_map(MountTable::iter)
    }
}

/// Whether it is a directory that no later mount covers.
#[must_use]
pub fn is_seen(mount: &MountEntry) -> bool {
    let id = Node::open(&mount.point).and_then(|node| node.stat()).map(|stat| stat.mount_id);
    id.is_ok_and(|id| id == mount.id) && mount.point.is_dir()
}

fn keeps_files(mount: &MountEntry) -> bool {
    let (major, _) = mount.device;
    let name = mount.filesystem.as_str();
    // Not fusectl, and not the portals and mounts that belong to one user's session.
    let of_users = ["fuse.portal", "fuse.gvfsd-fuse", "fuse.lxcfs"].contains(&name);
    !of_users && (major != 0 || WITHOUT_DEVICE.contains(&name) || name.starts_with("fuse."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Vec<(String, bool)> {
        let table = MountTable::parse(text).unwrap();
        table.iter().map(|mount| (mount.filesystem.clone(), keeps_files(mount))).collect()
    }

    #[test]
    fn files_are_kept_on_disks_and_servers_and_not_in_what_the_kernel_makes_up() {
        let text = "\
20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:40 / /data rw - btrfs /dev/sdb rw
22 20 0:41 / /net rw - nfs4 server:/x rw
23 20 0:42 / /run rw - tmpfs tmpfs rw
24 20 0:43 / /proc rw - proc proc rw
25 20 0:44 / /var/lib/x/merged rw - overlay overlay rw
26 20 0:45 / /mnt rw - fuse.sshfs x rw
";
        let kept: Vec<String> =
            table(text).into_iter().filter(|(_, kept)| *kept).map(|(name, _)| name).collect();
        assert_eq!(kept, ["ext4", "btrfs", "nfs4", "fuse.sshfs"]);
    }

    #[test]
    fn a_path_lies_on_the_mount_that_is_seen_there() {
        let mounts = Mounts::read();
        assert_eq!(mounts.filesystem_under(Path::new("/proc/self")), Some("proc"));
        assert_eq!(mounts.filesystem_under(Path::new("/no/such/path")), None);
        assert!(mounts.place_of("proc").is_some());
    }
}
