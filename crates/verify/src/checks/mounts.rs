//! Every mount of a pod's containers shows files with owners of the pod's block.
//!
//! | mount | must |
//! |---|---|
//! | proc, sysfs, cgroup, devpts, devtmpfs and the like | nothing: its files are the kernel's own, which grants access by namespace; their owner is the host's root in every pod |
//! | an empty read-only tmpfs over a part of /proc or /sys, a device file | nothing: it hides something, or the device's rules count |
//! | overlay (the container's root, an image volume) | by stat: every owner is in the block, or is left out by the map (65534) |
//! | a server's files (nfs, fuse, …) | be idmapped, or have been mounted by the pod itself; nothing is asked of the server, which may never answer |
//! | any other, idmapped | by stat: owners are in this block and not in another; or left out by the map |
//! | one regular file, read-only and world-readable | nothing: its owner makes no difference (containerd gives the pause its /etc/resolv.conf so) |
//! | any other, not idmapped | by stat: every owner is in the block, as after a chown; a sticky tmpfs such as /dev/shm may itself be the host's, what is in it may not |
//!
//! A mount that another one covers is judged as well: the pod can uncover it at any time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ids::IdKind;
use kernel::{Dir, Kind, LastLink, MountEntry, Node, Stat, Within};

use super::Tally;
use super::files::{self, Bounds};
use crate::pods::Pod;
use crate::violation::{Findings, Violation, What};

/// Filesystems whose files the kernel makes up.
const KERNELS: [&str; 20] = [
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];
/// Filesystems of a server that we must not wait for.
const SERVERS: [&str; 12] =
    ["9p", "afs", "ceph", "cifs", "fuse", "fuseblk", "gpfs", "lustre", "nfs", "nfs4", "smb3", "virtiofs"];
/// What the kernel shows for an owner that a map leaves out.
const LEFT_OUT: u32 = 65_534;
/// How many files of one mount are named.
const NAMED: usize = 3;

/// Whether owners or options of this mount say something about a pod's isolation.
pub(super) fn needs_proof(mount: &MountEntry) -> bool {
    !matches!(proof(mount), Proof::None)
}

/// What is to be shown of a mount.
enum Proof {
    /// Nothing.
    None,
    /// From its options alone.
    Options,
    /// From the owners of its files.
    Owners,
}

fn proof(mount: &MountEntry) -> Proof {
    let kind = mount.filesystem.as_str();
    let hides = ["/proc", "/sys"]
        .iter()
        .any(|of_kernel| mount.point.starts_with(of_kernel) && mount.point != Path::new(of_kernel));
    let server = SERVERS.contains(&kind) || kind.starts_with("fuse.");
    if KERNELS.contains(&kind) || (hides && (server || (kind == "tmpfs" && mount.read_only()))) {
        Proof::None
    } else if server {
        Proof::Options
    } else {
        Proof::Owners
    }
}

/// A world-readable file on a read-only mount: its owner makes no difference.
fn gives_nothing_away(mount: &MountEntry, root: &Stat) -> bool {
    const EVERYBODY_READS: u32 = 0o004;
    const RUNS_AS_ANOTHER: u32 = 0o6000;
    let one_file = root.kind == Kind::File && mount.read_only();
    one_file && root.mode & EVERYBODY_READS != 0 && root.mode & RUNS_AS_ANOTHER == 0
}

/// The mounts of a container, and whose container it is.
pub(super) struct ContainerMounts<'a> {
    pub(super) pod: &'a Pod,
    /// A process that sees them, if any does.
    pub(super) pid: Option<u32>,
    pub(super) top: Dir,
    pub(super) points: BTreeSet<PathBuf>,
    pub(super) entries: usize,
}

impl ContainerMounts<'_> {
    /// The root of a mount; `None` if it is covered or gone.
    pub(super) fn root_of(&self, mount: &MountEntry) -> Option<Node> {
        let below = mount.point.strip_prefix("/").unwrap_or(&mount.point);
        let node = self.top.node(below, Within::NoLinks, LastLink::Keep).ok()?;
        (node.mount_id().ok() == Some(mount.id)).then_some(node)
    }

    /// `false` for a mount that is covered or gone.
    pub(super) fn judge(&self, mount: &MountEntry, findings: &mut Findings, tally: &mut Tally) -> bool {
        let Some(node) = self.root_of(mount) else { return false };
        match proof(mount) {
            Proof::None => {}
            Proof::Options => self.options(mount, findings),
            Proof::Owners => self.owners(mount, &node, findings, tally),
        }
        true
    }

    fn options(&self, mount: &MountEntry, findings: &mut Findings) {
        let mounted_by = mount.super_options.iter().find_map(|option| option.strip_prefix("user_id="));
        let by_the_pod =
            mounted_by.and_then(|id| id.parse().ok()).is_some_and(|id| self.pod.maps.holds(IdKind::Uid, id));
        if !mount.idmapped() && !by_the_pod {
            findings.violated(self.not_idmapped(mount, "not idmapped"));
        }
    }

    fn owners(&self, mount: &MountEntry, node: &Node, findings: &mut Findings, tally: &mut Tally) {
        let Ok(root) = node.stat() else { return };
        tally.files += 1;
        let spared = (mount.idmapped() || mount.filesystem == "overlay").then_some(LEFT_OUT);
        let sticky = mount.filesystem == "tmpfs" && root.mode & 0o1777 == 0o1777;
        let harmless = sticky || gives_nothing_away(mount, &root);
        if let Some(owner) = self.stranger(&root, spared).filter(|_| !harmless) {
            findings.violated(self.whole(mount, &owner));
            return;
        }
        if root.kind != Kind::Directory {
            return;
        }
        let bounds = Bounds { entries: self.entries, mount: mount.id, points: &self.points };
        let mut strangers = Vec::new();
        let mut left_out: Vec<PathBuf> = Vec::new();
        let walked = files::walk(node, &mount.point, &bounds, |path, stat| {
            if mount.idmapped() && [stat.uid, stat.gid].contains(&LEFT_OUT) {
                left_out.push(path.to_owned());
            }
            if let Some(owner) = self.stranger(stat, spared) {
                strangers.push((path.to_owned(), owner));
            }
        });
        tally.files += walked.entries;
        tally.in_part += usize::from(walked.in_part);
        if let Some(first) = left_out.first() {
            let text = format!(
                "{} files of {} belong to IDs that its map leaves out, such as {}: inside they belong to the overflow ID",
                left_out.len(),
                mount.point.display(),
                first.display()
            );
            findings.note(self.pod, text);
        }
        let more = strangers.len().saturating_sub(NAMED);
        for (at, (path, owner)) in strangers.into_iter().take(NAMED).enumerate() {
            let more =
                if more > 0 && at + 1 == NAMED { format!(" (and {more} more)") } else { String::new() };
            findings.violated(self.file(mount, &path, &format!("{owner}{more}")));
        }
    }

    /// The owner, if it is not of the block. What a device may be used for is not decided by its owner alone.
    fn stranger(&self, stat: &Stat, spared: Option<u32>) -> Option<String> {
        if matches!(stat.kind, Kind::CharDevice | Kind::BlockDevice) {
            return None;
        }
        let fine = |kind, id| self.pod.maps.holds(kind, id) || spared == Some(id);
        let both = fine(IdKind::Uid, stat.uid) && fine(IdKind::Gid, stat.gid);
        (!both).then(|| stat.owner().to_string())
    }

    fn whole(&self, mount: &MountEntry, owner: &str) -> Violation {
        if mount.filesystem == "overlay" || mount.idmapped() {
            return self.file(mount, &mount.point, owner);
        }
        self.not_idmapped(mount, &format!("not idmapped, owner {owner}"))
    }

    /// Of the pod, and by the process that sees it.
    fn placed(&self, violation: Violation) -> Violation {
        let violation = violation.of(self.pod);
        match self.pid {
            Some(pid) => violation.by(pid),
            None => violation,
        }
    }

    fn file(&self, mount: &MountEntry, path: &Path, owner: &str) -> Violation {
        let what = if mount.idmapped() { What::MountWrongMap } else { What::FileOwner };
        let expected = format!("an owner in {}", self.pod.maps);
        let violation = Violation::new(what, expected, format!("owner {owner} on {}", mount.filesystem));
        self.placed(violation).at(path.display().to_string())
    }

    fn not_idmapped(&self, mount: &MountEntry, found: &str) -> Violation {
        let expected = format!("idmapped to {}", self.pod.maps);
        let found = format!("{} on {}: {found}", mount.filesystem, mount.source);
        let violation = Violation::new(What::MountNotIdmapped, expected, found);
        self.placed(violation).at(mount.point.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use kernel::MountTable;

    use super::*;

    fn mount(line: &str) -> MountEntry {
        MountTable::parse(&format!("30 22 0:25 / {line}\n")).unwrap().iter().next().unwrap().clone()
    }

    #[test]
    fn what_the_kernel_makes_up_needs_no_proof_and_no_server_is_waited_for() {
        let owners = |line: &str| matches!(proof(&mount(line)), Proof::Owners);
        assert!(owners("/ rw - overlay overlay rw") && owners("/data rw - ext4 /dev/sda rw"));
        assert!(owners("/dev/shm rw - tmpfs shm rw") && owners("/processes ro - tmpfs x ro"));
        assert!(matches!(proof(&mount("/sys/firmware ro - tmpfs tmpfs ro")), Proof::None));
        assert!(matches!(proof(&mount("/proc rw - proc proc rw")), Proof::None));
        assert!(matches!(proof(&mount("/proc/meminfo rw - fuse.lxcfs lxcfs rw")), Proof::None));
        assert!(matches!(proof(&mount("/mnt rw - fuse.sshfs x rw")), Proof::Options));
        assert!(matches!(proof(&mount("/mnt rw - nfs4 server:/x rw")), Proof::Options));
    }

    #[test]
    fn only_a_read_only_file_that_everybody_may_read_gives_nothing_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "").unwrap();
        let stat = |mode: u32| Stat { mode, ..Node::open(&path).unwrap().stat().unwrap() };
        let (closed, open) = (mount("/f ro - ext4 /dev/sda rw"), mount("/f rw - ext4 /dev/sda rw"));
        assert!(gives_nothing_away(&closed, &stat(0o644)));
        assert!(!gives_nothing_away(&open, &stat(0o644)));
        assert!(!gives_nothing_away(&closed, &stat(0o640)));
        assert!(!gives_nothing_away(&closed, &stat(0o4755)));
        assert!(!gives_nothing_away(&closed, &Node::open(dir.path()).unwrap().stat().unwrap()));
    }
}
