//! One walk over every process of the host.
//!
//! A process that goes away meanwhile is no error. What cannot be read of one that stays is found and named by
//! the census, which walks the same ground as the ledger's witness.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use census::HostRoot;
use kernel::{MountTable, NamespaceKind};

use super::maps::Maps;
use super::spaces::{Handle, Spaces, namespace_link};
use super::status::Status;

/// The kinds that are told apart here.
const KINDS: [NamespaceKind; 6] = [
    NamespaceKind::User,
    NamespaceKind::Mnt,
    NamespaceKind::Net,
    NamespaceKind::Ipc,
    NamespaceKind::Uts,
    NamespaceKind::Pid,
];

/// A process as it was seen.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// The IDs are those of all its threads.
    pub(super) status: Status,
    /// The namespaces it is in, by number; one that may not be read is left out.
    pub(super) spaces: BTreeMap<NamespaceKind, u64>,
    /// The text of /proc/PID/cgroup.
    pub(super) cgroups: String,
    /// Its SELinux label, where the kernel has them.
    pub(super) label: Option<String>,
}

impl Process {
    pub(super) fn space(&self, kind: NamespaceKind) -> Option<u64> {
        self.spaces.get(&kind).copied()
    }

    /// For people.
    pub(super) fn name(&self) -> String {
        format!("process {} ({})", self.pid, self.status.name)
    }
}

/// All that was seen.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) processes: Vec<Process>,
    pub(super) spaces: Spaces,
    /// The maps of the user namespaces that tasks live in.
    pub(super) maps: BTreeMap<u64, Maps>,
    pub(super) unseen: Vec<String>,
    root: HostRoot,
    selinux: bool,
    mounts_read: BTreeSet<u64>,
}

impl Walk {
    /// Over `/proc` under `root`.
    pub(super) fn over(root: &HostRoot) -> io::Result<Self> {
        let mut walk = Self {
            processes: Vec::new(),
            spaces: Spaces::new(root),
            maps: BTreeMap::new(),
            unseen: Vec::new(),
            root: root.clone(),
            selinux: root.path("/sys/fs/selinux/enforce").exists(),
            mounts_read: BTreeSet::new(),
        };
        for entry in fs::read_dir(root.path("/proc"))?.flatten() {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                walk.process(pid);
            }
        }
        walk.processes.sort_by_key(|process| process.pid);
        Ok(walk)
    }

    /// The files of a process.
    fn dir(&self, pid: u32) -> PathBuf {
        self.root.path(format!("/proc/{pid}"))
    }

    fn process(&mut self, pid: u32) {
        let dir = self.dir(pid);
        let Some(mut status) = text(&dir.join("status")).ok().and_then(|text| Status::parse(&text)) else {
            return;
        };
        let mut spaces = BTreeMap::new();
        for kind in KINDS {
            let link = dir.join("ns").join(kind.file());
            if let Some((_, inode)) = fs::read_link(&link).ok().and_then(|link| namespace_link(&link)) {
                spaces.insert(kind, inode);
                self.spaces.hold(kind, inode, Handle::Task { pid });
            }
        }
        if let Some(user) = spaces.get(&NamespaceKind::User) {
            self.read_maps(*user, pid);
        }
        if !status.kernel_thread {
            self.threads(&dir, &mut status);
            self.descriptors(pid);
            if let Some(mounts) = spaces.get(&NamespaceKind::Mnt) {
                self.pins(*mounts, pid);
            }
        }
        let cgroups = text(&dir.join("cgroup")).unwrap_or_default();
        let label = if self.selinux { self.label(&dir, pid) } else { None };
        self.processes.push(Process { pid, status, spaces, cgroups, label });
    }

    fn read_maps(&mut self, user: u64, pid: u32) {
        if self.maps.contains_key(&user) {
            return;
        }
        let dir = self.dir(pid);
        let read = |name: &str| text(&dir.join(name));
        if let (Ok(uids), Ok(gids)) = (read("uid_map"), read("gid_map"))
            && let Ok(maps) = Maps::parse(&uids, &gids)
        {
            self.maps.insert(user, maps);
        }
    }

    fn threads(&self, dir: &Path, status: &mut Status) {
        if status.threads < 2 {
            return;
        }
        for task in fs::read_dir(dir.join("task")).into_iter().flatten().flatten() {
            if let Some(other) = text(&task.path().join("status")).ok().and_then(|text| Status::parse(&text))
            {
                status.join(&other);
            }
        }
    }

    /// The namespaces that a process has open.
    fn descriptors(&mut self, pid: u32) {
        for entry in fs::read_dir(self.dir(pid).join("fd")).into_iter().flatten().flatten() {
            let link = fs::read_link(entry.path()).ok();
            if let Some((kind, inode)) = link.and_then(|link| namespace_link(&link)) {
                self.spaces.hold(kind, inode, Handle::Descriptor { pid, path: entry.path() });
            }
        }
    }

    /// The namespaces that are mounted in a mount namespace.
    fn pins(&mut self, mounts: u64, pid: u32) {
        if self.mounts_read.contains(&mounts) {
            return;
        }
        let Ok(found) = text(&self.dir(pid).join("mountinfo")) else { return };
        self.mounts_read.insert(mounts);
        let lines: String =
            found.lines().filter(|l| l.contains(" - nsfs ")).map(|l| format!("{l}\n")).collect();
        let Ok(table) = MountTable::parse(&lines) else {
            self.unseen.push(format!("process {pid}: its mounts of namespaces cannot be understood"));
            return;
        };
        for mount in table.iter() {
            if let Some((kind, inode)) = namespace_link(&mount.root) {
                let handle = Handle::Mount { pid, point: mount.point.clone(), id: mount.id };
                self.spaces.hold(kind, inode, handle);
            }
        }
    }

    fn label(&mut self, dir: &Path, pid: u32) -> Option<String> {
        match text(&dir.join("attr/current")) {
            Ok(label) => {
                Some(label.trim_end_matches(['\0', '\n']).to_owned()).filter(|label| !label.is_empty())
            }
            Err(e) if is_gone(&e) => None,
            Err(e) => {
                self.unseen.push(format!("process {pid}: its SELinux label cannot be read: {e}"));
                None
            }
        }
    }
}

/// A small file, whatever bytes are in it.
pub(super) fn text(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What reading of a process that has ended fails with.
pub(super) fn is_gone(error: &io::Error) -> bool {
    const NO_SUCH_PROCESS: i32 = 3;
    const INVALID: i32 = 22;
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(NO_SUCH_PROCESS | INVALID))
}
