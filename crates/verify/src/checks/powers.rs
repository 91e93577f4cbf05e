//! Capabilities are worthless outside: every namespace that a pod's process could use them on belongs to the
//! pod's own user namespace, or to the host's, over which the pod has no power.

use std::collections::BTreeSet;

use kernel::NamespaceKind;

use crate::pods::{Pod, is_the_hosts};
use crate::scan::HostScan;
use crate::violation::{Findings, Violation, What};

/// Those that capabilities act on.
const KINDS: [NamespaceKind; 5] =
    [NamespaceKind::Net, NamespaceKind::Ipc, NamespaceKind::Uts, NamespaceKind::Mnt, NamespaceKind::Pid];

pub(super) fn check(scan: &HostScan, findings: &mut Findings) {
    for pod in scan.isolated() {
        let mut seen = BTreeSet::new();
        for process in pod.at_home(&scan.walk) {
            for (&kind, &inode) in process.threads.iter().flat_map(|thread| &thread.spaces) {
                if KINDS.contains(&kind) && seen.insert((kind, inode)) {
                    judge(scan, &Held { pod, pid: process.pid, kind, inode }, findings);
                }
            }
        }
    }
}

/// A namespace that a process of a pod is in.
struct Held<'a> {
    pod: &'a Pod,
    pid: u32,
    kind: NamespaceKind,
    inode: u64,
}

fn judge(scan: &HostScan, held: &Held<'_>, findings: &mut Findings) {
    let Held { pod, pid, kind, inode } = *held;
    let Some(owner) = scan.walk.spaces.owner(kind, inode) else {
        // One that ends meanwhile has no say any more.
        if scan.walk.spaces.open(kind, inode).is_some() {
            let what = format!("the owner of the {kind} namespace [{inode}] of {}", pod.title());
            findings.unseen_of(pod, format!("the kernel does not report {what}"));
        }
        return;
    };
    if pod.home.is_some_and(|home| scan.walk.spaces.lies_in(owner, home)) {
        return;
    }
    let hosts_own = hosts_namespace(scan, kind) == Some(inode);
    if kind == NamespaceKind::Mnt && hosts_own {
        let expected = "a mount namespace of the pod's own";
        let violation = Violation::new(What::NamespaceOwner, expected, "the host's mount namespace");
        findings.violated(violation.of(pod).by(pid));
    } else if is_the_hosts(&scan.walk, owner) {
        let whose = if hosts_own { "is the host's" } else { "belongs to the host's user namespace" };
        findings
            .note(pod, format!("its {kind} namespace {whose}: capabilities of the pod are worthless there"));
    } else {
        let whose = scan.pod_around(owner).map_or_else(String::new, |other| format!(" of {}", other.title()));
        let found = format!("its {kind} namespace [{inode}] belongs to user namespace [{owner}]{whose}");
        let expected = "namespaces that belong to the pod's user namespace";
        findings.violated(Violation::new(What::NamespaceOwner, expected, found).of(pod).by(pid));
    }
}

/// The kernel's own threads are in the namespaces that the host began with.
fn hosts_namespace(scan: &HostScan, kind: NamespaceKind) -> Option<u64> {
    scan.walk.processes.iter().find(|process| process.pid == 2)?.space(kind)
}
