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
use procfs::{Proc, is_gone};

use crate::maps::Maps;
use crate::spaces::{Handle, Spaces, namespace_link};
use crate::status::Status;

/// The kinds of namespaces that are compared.
const KINDS: [NamespaceKind; 6] = [
    NamespaceKind::User,
    NamespaceKind::Mnt,
    NamespaceKind::Net,
    NamespaceKind::Ipc,
    NamespaceKind::Uts,
    NamespaceKind::Pid,
];

/// How many descriptors are read of a process whose threads have tables of their own. Only one that wants to keep us busy has
/// more.
const DESCRIPTORS: usize = 65_536;

/// With how many tables of the process the table of a thread is compared before it is read.
const COMPARED_TABLES: usize = 16;

/// A process as it was seen.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The IDs are those of all its threads.
    pub(crate) status: Status,
    /// The namespaces it is in, by number; one that may not be read is left out. Those of a leader that has ended are those of
    /// a thread that has not.
    pub(crate) spaces: BTreeMap<NamespaceKind, u64>,
    /// Its threads, the leader first.
    pub(crate) threads: Vec<Thread>,
    /// What could not be read of its threads, for people.
    pub(crate) unseen: Vec<String>,
    /// The text of /proc/PID/cgroup.
    pub(crate) cgroups: String,
    /// Its SELinux label, where the kernel has them.
    pub(crate) label: Option<String>,
}

/// One thread of a process, which may be in namespaces of its own: unshare(2) is about threads.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) spaces: BTreeMap<NamespaceKind, u64>,
}

impl Process {
    pub(crate) fn space(&self, kind: NamespaceKind) -> Option<u64> {
        self.spaces.get(&kind).copied()
    }

    /// Whether it goes on and its user namespace cannot be read, which takes `CAP_SYS_PTRACE`. Its mount namespace cannot be
    /// read then either, which was noted after a second look at whether it goes on.
    pub(crate) fn is_unread(&self) -> bool {
        self.space(NamespaceKind::User).is_none() && !self.status.kernel_thread && !self.unseen.is_empty()
    }

    /// For people.
    pub(crate) fn name(&self) -> String {
        format!("process {} ({})", self.pid, self.status.name)
    }
}

/// All that was seen.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) processes: Vec<Process>,
    pub(crate) spaces: Spaces,
    /// The maps of the user namespaces that tasks live in.
    pub(crate) maps: BTreeMap<u64, Maps>,
    pub(crate) unseen: Vec<String>,
    root: HostRoot,
    selinux: bool,
    /// Whether the numbers of tasks in that /proc are those of our own PID namespace.
    numbers_are_ours: bool,
    mounts_read: BTreeSet<u64>,
}

impl Walk {
    /// Over `/proc` under `root`.
    pub(crate) fn over(root: &HostRoot) -> io::Result<Self> {
        let mut walk = Self {
            processes: Vec::new(),
            spaces: Spaces::new(root),
            maps: BTreeMap::new(),
            unseen: Vec::new(),
            root: root.clone(),
            selinux: root.path("/sys/fs/selinux/enforce").exists(),
            numbers_are_ours: root.is_own(),
            mounts_read: BTreeSet::new(),
        };
        for pid in Proc::at(&root.path("/proc"))?.pids()? {
            walk.process(pid);
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
        let Some(mut status) = thread_status(&dir) else { return };
        let mut unseen = Vec::new();
        let threads = self.threads(pid, &mut status, &mut unseen);
        let mut spaces = BTreeMap::new();
        for (kind, inode) in threads.iter().flat_map(|thread| &thread.spaces) {
            spaces.entry(*kind).or_insert(*inode);
        }
        if let Some(user) = spaces.get(&NamespaceKind::User) {
            self.read_maps(*user, pid);
        }
        if !status.kernel_thread {
            self.descriptor_tables(&dir, &threads, &mut unseen);
            for thread in &threads {
                if let Some(mounts) = thread.spaces.get(&NamespaceKind::Mnt) {
                    self.pins(*mounts, thread.tid);
                }
            }
        }
        let cgroups = text(&dir.join("cgroup")).unwrap_or_default();
        let label = if self.selinux { self.label(&dir, pid) } else { None };
        self.processes.push(Process { pid, status, spaces, threads, unseen, cgroups, label });
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

    /// Its threads and their namespaces; `status` gets the IDs of all of them.
    fn threads(&mut self, pid: u32, status: &mut Status, unseen: &mut Vec<String>) -> Vec<Thread> {
        let leader = self.thread(pid, &self.dir(pid), unseen);
        let mut threads = vec![leader];
        if status.threads < 2 || status.kernel_thread {
            return threads;
        }
        for entry in fs::read_dir(self.dir(pid).join("task")).into_iter().flatten().flatten() {
            let tid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(tid) = tid.filter(|tid| *tid != pid) else { continue };
            if let Some(other) = thread_status(&entry.path()) {
                status.join(&other);
                threads.push(self.thread(tid, &entry.path(), unseen));
            }
        }
        threads
    }

    /// One thread, which has its files in `dir`.
    fn thread(&mut self, tid: u32, dir: &Path, unseen: &mut Vec<String>) -> Thread {
        let mut spaces = BTreeMap::new();
        for kind in KINDS {
            let link = dir.join("ns").join(kind.file());
            if let Some((_, inode)) = fs::read_link(&link).ok().and_then(|link| namespace_link(&link)) {
                spaces.insert(kind, inode);
                self.spaces.hold(kind, inode, Handle::Task { pid: tid });
            }
        }
        // One that has ended is in no mount namespace.
        if !spaces.contains_key(&NamespaceKind::Mnt) && thread_status(dir).is_some_and(|status| !status.ended)
        {
            unseen.push(format!("the mount namespace of thread {tid} cannot be read"));
        }
        Thread { tid, spaces }
    }

    /// The namespaces that the threads of a process have open. Threads mostly have one table of descriptors.
    fn descriptor_tables(&mut self, dir: &Path, threads: &[Thread], unseen: &mut Vec<String>) {
        let mut tables: Vec<u32> = Vec::new();
        let mut read = 0;
        for Thread { tid, .. } in threads {
            let compared = tables.iter().take(COMPARED_TABLES);
            if self.numbers_are_ours && compared.copied().any(|known| kernel::share_descriptors(known, *tid))
            {
                continue;
            }
            // The first one is read in any case.
            if read > DESCRIPTORS && tables.len() > 1 {
                unseen.push(format!("its threads have more than {DESCRIPTORS} descriptors open"));
                return;
            }
            tables.push(*tid);
            read += self.descriptors(*tid, &dir.join(format!("task/{tid}/fd")));
        }
    }

    /// The namespaces that a thread has open; how many descriptors there are in its table.
    fn descriptors(&mut self, tid: u32, table: &Path) -> usize {
        let mut read = 0;
        for entry in fs::read_dir(table).into_iter().flatten().flatten() {
            let link = fs::read_link(entry.path()).ok();
            if let Some((kind, inode)) = link.and_then(|link| namespace_link(&link)) {
                self.spaces.hold(kind, inode, Handle::Descriptor { pid: tid, path: entry.path() });
            }
            read += 1;
        }
        read
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

fn thread_status(dir: &Path) -> Option<Status> {
    text(&dir.join("status")).ok().and_then(|text| Status::parse(&text))
}

/// A small file, whatever bytes are in it.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
