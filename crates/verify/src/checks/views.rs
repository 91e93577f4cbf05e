//! The mounts that a pod's processes can reach, looked at from the root of each mount namespace.
//!
//! What a process shows of its mounts is relative to its own root, which it can move with chroot(2). Therefore the mounts are
//! copied from the root of the mount namespace into one of our own, and from the root of each process that is not below it. The
//! copy is taken apart from the top: what another mount covers is judged, too. Nothing of this is seen in the original.
//!
//! Each thread of a process can be in a mount namespace of its own, also after the leader has ended, and a descriptor or a mount
//! keeps a mount namespace that no process is in. A process of the pod can enter all that belong to the pod's user namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use kernel::{
    CopiedFrom, MountCopy, MountEntry, MountTable, Namespace, NamespaceKind, Node, PrivateMountNamespace,
    in_private_mount_namespace,
};

use super::mounts::{ContainerMounts, needs_proof};
use super::{Checked, Tally};
use procfs::is_gone;

use crate::pods::Pod;
use crate::scan::HostScan;
use crate::spaces::namespace_link;
use crate::violation::Findings;
use crate::walk::text;

/// How often what is on top is taken away. Containers have mounts in a few layers; one with more is made to keep us busy.
const LAYERS: usize = 64;

/// Where copies are attached, in a mount namespace of our own: a directory that is on every host and not needed meanwhile.
const TARGET: &str = "/sys";

/// How many mount namespaces of one pod are looked at that no process of it is in.
const KEPT: usize = 64;

/// How long one mount namespace may take. A pod can mount a filesystem whose server never answers, also below an overlay.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn check(scan: &HostScan, checked: &mut Checked) {
    for pod in scan.isolated() {
        pod_mounts(scan, pod, checked);
    }
}

fn pod_mounts(scan: &HostScan, pod: &Pod, checked: &mut Checked) {
    let text = |cause: &dyn std::fmt::Display| format!("the mounts of {}: {cause}", pod.title());
    for cause in pod.at_home(&scan.walk).flat_map(|process| &process.unseen) {
        checked.findings.unseen_of(pod, text(cause));
    }
    for view in views(scan, pod, &mut checked.findings) {
        match judged_in_time(view) {
            Some(Ok((found, judged))) => {
                checked.findings.violations.extend(found.findings.violations);
                checked.findings.unseen.extend(found.findings.unseen);
                checked.findings.notes.extend(found.findings.notes);
                checked.tally.files += found.tally.files;
                checked.tally.in_part += found.tally.in_part;
                *checked.tally.mounts.entry(pod.uid().to_owned()).or_default() += judged;
            }
            Some(Err(error)) => checked.findings.unseen_of(pod, text(&error)),
            None => {
                let cause = format!("a filesystem did not answer within {} s", PATIENCE.as_secs());
                checked.findings.unseen_of(pod, text(&cause));
                // The pod is unseen already. With many such mount namespaces it would keep us for as long as it likes.
                break;
            }
        }
    }
    if checked.tally.mounts.get(pod.uid()).is_none_or(|judged| *judged == 0) {
        checked.findings.unseen_of(pod, text(&"its processes have none that can be looked at"));
    }
}

/// What was found in a mount namespace, and how many mounts were judged; `None` if that takes too long. The thread that waits
/// for the filesystem is left alone then: only the end of this process ends it.
fn judged_in_time(mut view: View) -> Option<Looked> {
    let inode = view.inode;
    if is_waited_for(inode) {
        return None;
    }
    let (tell, told) = channel();
    let judge = move || {
        let looked = in_private_mount_namespace(|inside| {
            let mut found = Checked::default();
            let judged = view.judge(inside, &mut found);
            (found, judged)
        });
        // The other side may have given up.
        let _ = tell.send(looked);
    };
    match Builder::new().name("verify".to_owned()).spawn(judge) {
        Ok(_) => {
            let looked = told.recv_timeout(PATIENCE).ok();
            if looked.is_none() {
                WAITING.lock().unwrap_or_else(PoisonError::into_inner).insert(inode, told);
            }
            looked
        }
        Err(error) => Some(Err(kernel::Error::Thread { cause: error.to_string() })),
    }
}

type Looked = kernel::Result<(Checked, usize)>;

/// The mount namespaces that took too long, with what their threads will say.
static WAITING: Mutex<BTreeMap<u64, Receiver<Looked>>> = Mutex::new(BTreeMap::new());

/// Whether a thread still waits for a filesystem of this mount namespace: each look would add one.
fn is_waited_for(inode: u64) -> bool {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.retain(|_, told| matches!(told.try_recv(), Err(TryRecvError::Empty)));
    waiting.contains_key(&inode)
}

/// One mount namespace of a pod.
struct View {
    pod: Pod,
    inode: u64,
    /// The processes of the pod in it, each with the directory in proc of the thread that is.
    processes: Vec<(u32, PathBuf)>,
    /// The mount namespace itself, if no process of the pod is in it.
    kept: Option<Namespace>,
    /// The mount namespaces of the host whose owner is known: those of this pod are looked at.
    known: Arc<BTreeSet<u64>>,
    /// How many entries of each mount are looked at.
    entries: usize,
}

/// The mount namespaces of the pod, but for the host's: that one is a violation by itself.
fn views(scan: &HostScan, pod: &Pod, findings: &mut Findings) -> Vec<View> {
    let spaces = &scan.walk.spaces;
    let all = spaces.iter().filter(|(kind, ..)| *kind == NamespaceKind::Mnt);
    let owners: BTreeMap<u64, u64> =
        all.filter_map(|(kind, inode, _)| Some((inode, spaces.owner(kind, inode)?))).collect();
    let known: Arc<BTreeSet<u64>> = Arc::new(owners.keys().copied().collect());
    let view = |inode, kept| View {
        pod: pod.clone(),
        inode,
        processes: Vec::new(),
        kept,
        known: Arc::clone(&known),
        entries: scan.files,
    };
    let mut views: BTreeMap<u64, View> = BTreeMap::new();
    for process in pod.at_home(&scan.walk) {
        for thread in &process.threads {
            let Some(&inode) = thread.spaces.get(&NamespaceKind::Mnt) else { continue };
            let view = views.entry(inode).or_insert_with(|| view(inode, None));
            view.processes.push((process.pid, scan.proc_dir(thread.tid)));
        }
    }
    let belongs = |owner: u64| pod.home.is_some_and(|home| spaces.lies_in(owner, home));
    let kept: Vec<u64> = owners
        .iter()
        .filter(|(inode, owner)| !views.contains_key(inode) && belongs(**owner))
        .map(|(inode, _)| *inode)
        .collect();
    if kept.len() > KEPT {
        let cause = format!("{} mount namespaces without a process belong to it", kept.len());
        findings.unseen_of(pod, format!("the mounts of {}: {cause}", pod.title()));
    }
    for inode in kept.into_iter().take(KEPT) {
        // One that cannot be opened any more has gone.
        if let Some(namespace) = spaces.open(NamespaceKind::Mnt, inode) {
            views.insert(inode, view(inode, Some(namespace)));
        }
    }
    let hosts = scan.walk.processes.iter().find(|p| p.pid == 2).and_then(|p| p.space(NamespaceKind::Mnt));
    views.into_values().filter(|view| Some(view.inode) != hosts).collect()
}

impl View {
    /// Judges every mount; how many there were.
    fn judge(&mut self, inside: &PrivateMountNamespace, to: &mut Checked) -> usize {
        let kept = self.kept.take().map(|namespace| (None, namespace));
        let found = kept.or_else(|| self.in_use());
        // All of them have ended.
        let Some((pid, namespace)) = found else { return 0 };
        let copy = match inside.copy_mounts(&namespace, CopiedFrom::Root, Path::new(TARGET)) {
            Ok(copy) => copy,
            Err(error) => return self.unseen(&mut to.findings, &error),
        };
        let known: BTreeSet<u64> = copy.original().iter().map(|mount| mount.id).collect();
        let mut judged = self.copied(&copy, pid, copy.original(), to);
        drop(copy);
        let mut aside = Aside { view: self, inside, namespace: &namespace, known };
        for (pid, dir) in &self.processes {
            judged += aside.judge(*pid, dir, to);
        }
        let hidden = namespace.count_mounts().map_or(0, |count| count.saturating_sub(aside.known.len()));
        if hidden > 0 {
            let cause =
                format!("{hidden} of them are below the root of every process and of the mount namespace");
            self.unseen(&mut to.findings, &cause);
        }
        judged
    }

    /// The mount namespace, from a process that is still in it.
    fn in_use(&self) -> Option<(Option<u32>, Namespace)> {
        self.processes.iter().find_map(|(pid, dir)| {
            let namespace = Namespace::open(&dir.join("ns/mnt")).ok()?;
            (namespace.id().ino == self.inode).then_some((Some(*pid), namespace))
        })
    }

    /// Mount namespaces can be mounted themselves, also where no process sees it.
    fn mounted_namespaces(&self, original: &MountTable, findings: &mut Findings) {
        for mount in original.iter().filter(|mount| mount.filesystem == "nsfs") {
            let Some((NamespaceKind::Mnt, inode)) = namespace_link(&mount.root) else { continue };
            if !self.known.contains(&inode) {
                let cause =
                    format!("the mount namespace [{inode}] at {} cannot be opened", mount.point.display());
                self.unseen(findings, &cause);
            }
        }
    }

    /// Judges the mounts of a copy, from the top down; `original` is what it is a copy of.
    fn copied(
        &self,
        copy: &MountCopy<'_>,
        pid: Option<u32>,
        original: &MountTable,
        to: &mut Checked,
    ) -> usize {
        self.mounted_namespaces(original, &mut to.findings);
        let (mounts, top) = match (copy.mounts(), copy.root()) {
            (Ok(mounts), Ok(top)) => (mounts, top),
            (Err(error), _) | (_, Err(error)) => return self.unseen(&mut to.findings, &error),
        };
        let wanted = original.iter().filter(|mount| needs_proof(mount)).count();
        let copied = mounts.iter().filter(|mount| needs_proof(mount)).count();
        if copied < wanted {
            let missing = format!("{} of them cannot be copied: they are unbindable", wanted - copied);
            self.unseen(&mut to.findings, &missing);
        }
        let points = mounts.iter().map(|mount| mount.point.clone()).collect();
        let container_mounts = ContainerMounts { pod: &self.pod, pid, top, points, entries: self.entries };
        let Checked { findings, tally } = to;
        let (judged, covered) =
            Layers { container_mounts: &container_mounts, copy }.judge(mounts, findings, tally);
        for mount in covered.iter().filter(|mount| needs_proof(mount)) {
            let cause = format!(
                "{} at {} is covered and cannot be uncovered",
                mount.filesystem,
                mount.point.display()
            );
            self.unseen(findings, &cause);
        }
        judged
    }

    /// Nothing was judged.
    fn unseen(&self, findings: &mut Findings, cause: &impl std::fmt::Display) -> usize {
        let text = format!("the mounts of {} [mnt:{}]: {cause}", self.pod.title(), self.inode);
        findings.unseen_of(&self.pod, text);
        0
    }
}

/// Roots of processes that are not below the root of their mount namespace: something is mounted over that one.
struct Aside<'a> {
    view: &'a View,
    inside: &'a PrivateMountNamespace,
    namespace: &'a Namespace,
    /// The mounts that were judged, or are about to be.
    known: BTreeSet<u64>,
}

impl Aside<'_> {
    /// Judges the mounts that only processes with this root see; how many there were. `dir` is the process's in proc.
    fn judge(&mut self, pid: u32, dir: &Path, to: &mut Checked) -> usize {
        let own_root = Node::open(&dir.join("root")).and_then(|root| Ok((root.mount_id()?, root)));
        // It has ended meanwhile.
        let Ok((mount, root)) = own_root else { return 0 };
        if !self.known.insert(mount) {
            return 0;
        }
        let table = match text(&dir.join("mountinfo")) {
            Ok(found) => MountTable::parse(&found).map_err(|e| e.to_string()),
            Err(e) if is_gone(&e) => return 0,
            Err(e) => Err(e.to_string()),
        };
        let table = match table {
            Ok(table) => table,
            Err(cause) => return self.view.unseen(&mut to.findings, &cause),
        };
        self.known.extend(table.iter().map(|mount| mount.id));
        let from = CopiedFrom::Directory(root.as_fd());
        match self.inside.copy_mounts(self.namespace, from, Path::new(TARGET)) {
            Ok(copy) => self.view.copied(&copy, Some(pid), &table, to),
            Err(_) if !dir.exists() => 0,
            Err(error) => self.view.unseen(&mut to.findings, &error),
        }
    }
}

/// A copy that is taken apart.
struct Layers<'a> {
    container_mounts: &'a ContainerMounts<'a>,
    copy: &'a MountCopy<'a>,
}

impl Layers<'_> {
    /// Judges what is on top, takes that away as far as nothing is mounted on it, and begins anew. How many were judged, and
    /// what stayed covered.
    fn judge(
        &self,
        mut mounts: Vec<MountEntry>,
        findings: &mut Findings,
        tally: &mut Tally,
    ) -> (usize, Vec<MountEntry>) {
        let mut judged: BTreeSet<u64> = BTreeSet::new();
        let mut covered = Vec::new();
        for _ in 0..LAYERS {
            for mount in &mounts {
                if !judged.contains(&mount.id) && self.container_mounts.judge(mount, findings, tally) {
                    judged.insert(mount.id);
                }
            }
            covered = mounts.iter().filter(|mount| !judged.contains(&mount.id)).cloned().collect();
            if covered.is_empty() || !self.uncover(&mounts) {
                break;
            }
            match self.copy.mounts() {
                Ok(left) => mounts = left,
                Err(_) => break,
            }
        }
        (judged.len(), covered)
    }

    /// Whether any mount could be taken away.
    fn uncover(&self, mounts: &[MountEntry]) -> bool {
        let parents: BTreeSet<u64> = mounts.iter().map(|mount| mount.parent).collect();
        let leaves =
            mounts.iter().filter(|mount| !self.copy.is_root(mount.id) && !parents.contains(&mount.id));
        let gone = leaves.filter_map(|leaf| self.copy.unmount(&self.container_mounts.root_of(leaf)?).ok());
        gone.count() > 0
    }
}
