//! One walk over every task of the host.
//!
//! A task that goes away during the walk is no error: what it used is no longer used by it. It may have left a child with
//! its IDs that was not listed with it, and so on along a chain: after a process that went away before its IDs were read,
//! the processes are listed again and the new ones are read, until all that a listing shows were read.
//! Anything else that keeps us from looking at a task makes it a blind spot.

mod kernel_threads;
mod mounted;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kernel::NamespaceKind;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::belonging::Belonging;
use super::fds::{Budget, FdReader, OpenNamespaces};
use super::kinds::{HOMES, HOMES_OF_PROCESS, inode_of, linked};
use super::maps::Maps;
use super::own;
use super::pinned::{Pin, Place};
use super::status::{Credentials, Status, read_status};
use super::vantage::{INITIAL_USER_NAMESPACE, numbers_are_ours};
use super::{Lineage, Namespace};
use crate::error::CensusError;
use crate::host_root::HostRoot;
use crate::owner::Home;
use kernel_threads::KernelThreads;
use mounted::Mounted;

/// A process and the IDs from 65536 up that its threads use.
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) home: Home,
    pub(crate) credentials: Credentials,
}

/// What has been seen so far.
#[derive(Default)]
pub(crate) struct Walk {
    root: HostRoot,
    /// Whether what is asked of the kernel by number is answered for the tasks that are seen here.
    numbers_are_ours: bool,
    pub(crate) processes: Vec<Process>,
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) pins: BTreeMap<u64, Vec<Pin>>,
    pub(crate) lineage: Lineage,
    pub(crate) blind: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// Namespaces whose map is the host's own.
    like_host: HashSet<u64>,
    /// Where in `namespaces` an inode is.
    by_inode: HashMap<u64, usize>,
    /// Mount namespaces read, each with the root it was read from: a task sees no mount that lies
    /// outside its own root.
    mounts_read: HashSet<(u64, Vec<u8>)>,
    /// Namespaces that are mounted: looked at when all tasks and descriptors are.
    mounted: Vec<Mounted>,
    /// Whether there were more descriptors than were to be looked at.
    fds_left: bool,
    belonging: Belonging,
    fds: FdReader,
    text: Vec<u8>,
}

/// How often the processes are listed. To read a process that was just listed takes less time than it takes it to start
/// another and end: each listing finds the end of a chain more often than not, and so also the second one on a busy host.
const LISTINGS: u32 = 32;

/// Room for the longest link to a namespace.
const LINK: usize = 64;

/// Why a task was not looked at in full.
enum Miss {
    Gone,
    Blind(&'static str, String),
}

impl Miss {
    fn at(what: &'static str) -> impl Fn(Errno) -> Self {
        move |e| match e {
            // The last is what the kernel says of the maps and mounts of a task that is gone.
            Errno::NOENT | Errno::SRCH | Errno::INVAL => Self::Gone,
            e => Self::Blind(what, e.to_string()),
        }
    }
}

type Looked<T> = Result<T, Miss>;

/// Whether a process that was listed was there to be looked at.
#[derive(PartialEq, Eq)]
enum Seen {
    Yes,
    No,
}

/// A process by its first thread.
struct Leader<'a> {
    directory: &'a OwnedFd,
    pid: u32,
    /// How many descriptors are still to be looked at.
    fds: &'a Budget,
}

impl Walk {
    /// Looks at every task in `/proc` under `root`, and at as many open descriptors as `fds` allows. The same host gives the
    /// same result.
    pub(crate) fn over(root: &HostRoot, fds: &Budget) -> Result<Self, CensusError> {
        let path = root.path("/proc");
        let failed = |e: Errno| CensusError::Proc { path: path.clone(), source: e.into() };
        let proc = open_directory(rustix::fs::CWD, &path).map_err(failed)?;
        let numbers_are_ours = numbers_are_ours(root);
        let kernels = KernelThreads::of(&proc, numbers_are_ours);
        let mut pids = procfs::numbers(&proc).map_err(failed)?;
        pids.sort_unstable();
        let mut walk = Self { root: root.clone(), numbers_are_ours, ..Self::default() };
        let mut seen = HashSet::new();
        for listing in 1.. {
            let mut last_missed = None;
            for pid in pids {
                if kernels.has(&proc, pid) || walk.process(&proc, pid, fds) == Seen::Yes {
                    seen.insert(pid);
                } else {
                    last_missed = Some(pid);
                }
            }
            let Some(missed) = last_missed else { break };
            if listing == LISTINGS {
                walk.blind.push(too_fast(missed));
                break;
            }
            pids = procfs::numbers(&proc).map_err(failed)?;
            pids.retain(|pid| !seen.contains(pid));
            // The newest first: the others have lived longer already.
            pids.sort_unstable_by(|one, other| other.cmp(one));
        }
        walk.resolve_mounts();
        if walk.fds_left {
            walk.blind.push(
                "there are more open descriptors than are read when a block is leased; wardlet ids gc reads all"
                    .to_owned(),
            );
        }
        walk.blind.sort();
        walk.blind.dedup();
        Ok(walk)
    }

    /// Says whether its IDs were read, or why they cannot be is known.
    fn process(&mut self, proc: &OwnedFd, pid: u32, fds: &Budget) -> Seen {
        let directory = match open_path(proc, pid.to_string()).map_err(Miss::at("directory")) {
            Ok(directory) => directory,
            Err(Miss::Gone) => return Seen::No,
            Err(miss) => {
                self.missed(pid, "?", miss);
                return Seen::Yes;
            }
        };
        let mut credentials = Credentials::default();
        let status = match self.status(directory.as_fd(), &mut credentials) {
            Ok(status) => status,
            Err(Miss::Gone) => return Seen::No,
            Err(miss) => {
                self.missed(pid, "?", miss);
                return Seen::Yes;
            }
        };
        // The kernel's own threads have all that they have of the host.
        let home = if status.kernel_thread { Ok(Home::Host) } else { self.home(directory.as_fd(), pid) };
        let home = home.unwrap_or_else(|miss| {
            self.missed(pid, &status.name, miss);
            Home::Unknown
        });
        self.lineage.insert(pid, (status.parent, home));
        if !status.kernel_thread {
            let looked = self.tasks(&Leader { directory: &directory, pid, fds }, &status, &mut credentials);
            if let Err(miss) = looked {
                self.missed(pid, &status.name, miss);
            }
        }
        self.processes.push(Process { pid, comm: status.name, home, credentials });
        Seen::Yes
    }

    /// The IDs of every thread are read also where nothing else of the process may be.
    fn tasks(&mut self, process: &Leader<'_>, status: &Status, credentials: &mut Credentials) -> Looked<()> {
        let Leader { directory, pid, fds } = *process;
        // What has ended has neither mounts nor descriptors left.
        if status.ended && status.threads == 1 {
            return self.homes(directory.as_fd(), pid, &HOMES_OF_PROCESS);
        }
        let mut reached = self.reachable(directory.as_fd(), pid, None, fds);
        if status.threads == 1 {
            return reached;
        }
        let tasks = open_directory(directory, "task").map_err(Miss::at("threads"))?;
        for tid in procfs::numbers(&tasks).map_err(Miss::at("threads"))? {
            if tid == pid {
                continue;
            }
            let looked = self.thread(&tasks, tid, credentials).and_then(|thread| {
                let leads = reached.is_ok();
                if leads { self.reachable(thread.as_fd(), tid, Some(pid), fds) } else { Ok(()) }
            });
            match looked {
                Ok(()) | Err(Miss::Gone) => {}
                Err(blind) => reached = Err(blind),
            }
        }
        reached
    }

    /// Threads have credentials and mount namespaces of their own, and may have descriptors of
    /// their own; the kernel sees to it that they have one user namespace. No more than the credentials where
    /// the leader could not be looked into. Returns the thread's directory.
    fn thread(&mut self, tasks: &OwnedFd, tid: u32, credentials: &mut Credentials) -> Looked<OwnedFd> {
        let directory = open_path(tasks, tid.to_string()).map_err(Miss::at("threads"))?;
        self.status(directory.as_fd(), credentials)?;
        Ok(directory)
    }

    /// The user namespaces that the task keeps by its mounts and descriptors.
    fn reachable(&mut self, task: BorrowedFd<'_>, tid: u32, leader: Option<u32>, fds: &Budget) -> Looked<()> {
        let looked = self
            .mounts(task, tid)
            .and_then(|()| if leader.is_none() { self.homes(task, tid, &HOMES_OF_PROCESS) } else { Ok(()) })
            .and_then(|()| self.homes(task, tid, &HOMES))
            .and_then(|()| self.descriptors(task, tid, leader, fds));
        match looked {
            Err(Miss::Blind(..)) if self.is_gone(task) => Err(Miss::Gone),
            looked => looked,
        }
    }

    /// The kernel refuses to show the links of a task that ends at that very moment, just as if we
    /// had no right to see them.
    fn is_gone(&mut self, task: BorrowedFd<'_>) -> bool {
        let status = read_into(task, "status", &mut self.text);
        matches!(status, Err(Errno::NOENT | Errno::SRCH))
    }

    fn status(&mut self, task: BorrowedFd<'_>, credentials: &mut Credentials) -> Looked<Status> {
        read_into(task, "status", &mut self.text).map_err(Miss::at("status"))?;
        read_status(&self.text, credentials)
            .ok_or_else(|| Miss::Blind("status", "it is not laid out as the kernel does".into()))
    }

    fn home(&mut self, process: BorrowedFd<'_>, pid: u32) -> Looked<Home> {
        let inode = match link_inode(process, "ns/user", NamespaceKind::User) {
            Ok(inode) => inode,
            Err(Errno::ACCESS | Errno::PERM) => return self.unnamed_home(process, pid),
            Err(e) => return Err(Miss::at("user namespace")(e)),
        };
        if inode == INITIAL_USER_NAMESPACE || self.like_host.contains(&inode) {
            return Ok(Home::Host);
        }
        if let Some(known) = self.by_inode.get(&inode).and_then(|at| self.namespaces.get_mut(*at)) {
            known.pids.push(pid);
            return Ok(Home::Inode(inode));
        }
        let maps = self.maps(process)?;
        if maps.is_the_hosts() {
            self.like_host.insert(inode);
            return Ok(Home::Host);
        }
        self.by_inode.insert(inode, self.namespaces.len());
        self.namespaces.push(Namespace { inode: Some(inode), maps, pids: vec![pid] });
        self.belongs(&Pin { task: pid, place: Place::Home("ns/user"), inode, up: 0 });
        Ok(Home::Inode(inode))
    }

    /// Maps may be read of any task, so a namespace that may not be named still shows its IDs.
    fn unnamed_home(&mut self, process: BorrowedFd<'_>, pid: u32) -> Looked<Home> {
        let maps = self.maps(process)?;
        if maps.is_the_hosts() {
            return Ok(Home::Host);
        }
        self.namespaces.push(Namespace { inode: None, maps, pids: vec![pid] });
        Ok(Home::Unknown)
    }

    fn maps(&mut self, process: BorrowedFd<'_>) -> Looked<Maps> {
        let mut read = |name| {
            read_into(process, name, &mut self.text).map_err(Miss::at("ID maps"))?;
            Ok(String::from_utf8_lossy(&self.text).into_owned())
        };
        let (uids, gids): (String, String) = (read("uid_map")?, read("gid_map")?);
        Maps::parse(&uids, &gids).map_err(|e| Miss::Blind("ID maps", e.to_string()))
    }

    /// The namespaces of other kinds that the task lives in. A kernel need not have every kind.
    fn homes(&mut self, task: BorrowedFd<'_>, tid: u32, names: &[&'static str]) -> Looked<()> {
        for &name in names {
            match rustix::fs::readlinkat(task, name, Vec::with_capacity(LINK)) {
                Ok(link) => {
                    if let Some((_, inode)) = linked(link.as_bytes()) {
                        self.belongs(&Pin { task: tid, place: Place::Home(name), inode, up: 0 });
                    }
                }
                Err(e) => gone_is_fine(Miss::at("namespaces")(e))?,
            }
        }
        Ok(())
    }

    /// Looks through the task's descriptors, but not again through those that it shares with the leader.
    fn descriptors(
        &mut self,
        task: BorrowedFd<'_>,
        tid: u32,
        leader: Option<u32>,
        fds: &Budget,
    ) -> Looked<()> {
        if leader.is_some_and(|leader| self.numbers_are_ours && kernel::share_descriptors(leader, tid)) {
            return Ok(());
        }
        let is_own = self.numbers_are_ours && leader.unwrap_or(tid) == std::process::id();
        let found = {
            let _alone = is_own.then(own::alone);
            self.fds.namespaces(task, fds)
        };
        match found {
            Ok(OpenNamespaces { namespaces, left }) => {
                self.fds_left |= left;
                for (kind, inode, fd) in namespaces {
                    self.pin(kind, Pin { task: tid, place: Place::Descriptor(fd), inode, up: 0 });
                }
                Ok(())
            }
            Err(e) => gone_is_fine(Miss::at("open descriptors")(e)),
        }
    }

    fn pin(&mut self, kind: NamespaceKind, pin: Pin) {
        self.belongs(&pin);
        if kind == NamespaceKind::User {
            self.keep(pin.inode, pin);
        }
    }

    /// Takes note of the user namespaces that are kept because this namespace belongs to them.
    fn belongs(&mut self, pin: &Pin) {
        match self.belonging.of(&self.root, pin) {
            Ok(owners) => {
                for (owner, up) in owners.iter().zip(1..) {
                    self.keep(*owner, Pin { up, ..pin.clone() });
                }
            }
            Err(cause) => self.blind.push(cause),
        }
    }

    /// Only what no task known so far lives in: that one speaks for itself.
    fn keep(&mut self, inode: u64, pin: Pin) {
        let known = self.like_host.contains(&inode) || self.by_inode.contains_key(&inode);
        if inode != INITIAL_USER_NAMESPACE && !known {
            self.pins.entry(inode).or_default().push(pin);
        }
    }

    /// Process 1 is the host's own init: it runs with the host's IDs and is trusted to hold no
    /// namespace of a pod. Inside a virtual machine's sandbox even root may not look into it, and
    /// nothing could ever be freed there if that counted.
    fn missed(&mut self, pid: u32, comm: &str, miss: Miss) {
        let Miss::Blind(what, cause) = miss else { return };
        let text = format!("process {pid} ({comm}): its {what} cannot be read: {cause}");
        if pid == 1 {
            self.notes.push(format!("{text}; it is the host's init and trusted"));
        } else {
            self.blind.push(format!("{text}; run as root with CAP_SYS_PTRACE"));
        }
    }
}

fn too_fast(pid: u32) -> String {
    format!(
        "processes end faster than they can be looked at: each of {LISTINGS} listings had one that was gone before its IDs \
         were read, the last process {pid}; look again when fewer are started, and see whether one of them starts itself \
         anew without end"
    )
}

/// A zombie has neither mounts nor descriptors, yet its threads may.
fn gone_is_fine(miss: Miss) -> Looked<()> {
    match miss {
        Miss::Gone => Ok(()),
        blind => Err(blind),
    }
}

/// Opens for reading the directory's entries.
pub(crate) fn open_directory(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens to reach what is below; holds on to the very task, so that a reused number cannot mislead.
fn open_path(at: impl AsFd, name: String) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn link_inode(task: BorrowedFd<'_>, name: &str, kind: NamespaceKind) -> Result<u64, Errno> {
    let link = rustix::fs::readlinkat(task, name, Vec::with_capacity(LINK))?;
    inode_of(link.as_bytes(), kind).ok_or(Errno::ILSEQ)
}

/// Reads a whole small file into `text`, whose memory is kept from one file to the next.
pub(crate) fn read_into(at: impl AsFd, name: impl AsRef<Path>, text: &mut Vec<u8>) -> Result<(), Errno> {
    let file = rustix::fs::openat(at, name.as_ref(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    text.clear();
    loop {
        text.reserve(4096);
        if rustix::io::read(&file, rustix::buffer::spare_capacity(text))? == 0 {
            return Ok(());
        }
    }
}
