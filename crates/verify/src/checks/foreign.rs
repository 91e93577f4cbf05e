//! IDs of a pod's block outside the pod: in processes, and in user namespaces whatever keeps them.

use std::collections::BTreeSet;

use census::{OwnerKind, Via};
use ids::{HostSpan, IdKind};
use kernel::NamespaceKind;

use crate::maps::Maps;
use crate::pods::{Pod, is_the_hosts};
use crate::scan::HostScan;
use crate::spaces::HOST;
use crate::violation::{Findings, Violation, What};
use crate::visitor;
use crate::walk::Process;

const KINDS: [IdKind; 2] = [IdKind::Uid, IdKind::Gid];

pub(super) fn check(scan: &HostScan, findings: &mut Findings) {
    processes(scan, findings);
    namespaces(scan, findings);
    owners_of_others(scan, findings);
}

/// The census and the walk look one after the other. A process of a pod that has ended in between is in no pod by the walk: it
/// does not count. One that starts another all the time, outside the pod, is met by each walk.
fn processes(scan: &HostScan, findings: &mut Findings) {
    let walked = |pid: u32| scan.walk.processes.iter().find(|process| process.pid == pid);
    let mut known = BTreeSet::new();
    for owner in &scan.census.owners {
        let OwnerKind::Process { pid, .. } = owner.kind else { continue };
        known.insert(pid);
        let goes_on = || scan.proc_dir(pid).join("cgroup").exists();
        let counts = match walked(pid) {
            Some(process) => is_placed(process) || (!process.status.ended && goes_on()),
            None => goes_on(),
        };
        if counts {
            process(
                scan,
                &Candidate { pid, name: &owner.name, ids: KINDS.map(|kind| owner.ids(kind).to_vec()) },
                findings,
            );
        }
    }
    for walked in
        scan.walk.processes.iter().filter(|process| is_placed(process) && !known.contains(&process.pid))
    {
        let spans = |kind| {
            walked.status.ids(kind).iter().filter_map(|id| HostSpan::new(u64::from(*id), 1).ok()).collect()
        };
        process(scan, &Candidate { pid: walked.pid, name: &walked.name(), ids: KINDS.map(spans) }, findings);
    }
}

/// Whether its control group was read, which tells whose it is.
fn is_placed(process: &Process) -> bool {
    !process.cgroups.is_empty() && !process.status.ended
}

/// A process that may have IDs of a pod's block.
struct Candidate<'a> {
    pid: u32,
    name: &'a str,
    /// Of each kind.
    ids: [Vec<HostSpan>; 2],
}

fn process(scan: &HostScan, candidate: &Candidate<'_>, findings: &mut Findings) {
    let pid = candidate.pid;
    for pod in scan.isolated() {
        let mut all = KINDS.into_iter().zip(&candidate.ids);
        let met = all.find_map(|(kind, ids)| Some((kind, pod.maps.meets_spans(kind, ids)?)));
        let Some((kind, ids)) = met else { continue };
        if is_of(scan, pod, pid) || pod_of(scan, pid).is_some_and(|other| may_share(scan, pod, other)) {
            continue;
        }
        let found = format!("{} has {kind} {} and is not of the pod", candidate.name, ids.first());
        let expected = format!("{} for processes of the pod alone", pod.maps);
        findings.violated(Violation::new(What::ForeignProcess, expected, found).of(pod).by(pid));
    }
}

fn is_of(scan: &HostScan, pod: &Pod, pid: u32) -> bool {
    pod.processes.iter().any(|at| scan.walk.processes.get(*at).is_some_and(|process| process.pid == pid))
}

fn pod_of(scan: &HostScan, pid: u32) -> Option<&Pod> {
    scan.pods.iter().find(|pod| is_of(scan, pod, pid))
}

/// Whether two pods have IDs in common that `overlap` allows.
fn may_share(scan: &HostScan, one: &Pod, two: &Pod) -> bool {
    let both_podmans = one.is_podmans() && two.is_podmans();
    scan.share_a_lease(one, two) || (both_podmans && one.maps.meets(&two.maps).is_some())
}

/// A user namespace that is no pod's, and what it maps.
struct Foreign<'a> {
    inode: u64,
    uids: &'a [HostSpan],
    gids: &'a [HostSpan],
    /// What keeps it.
    kept: String,
    keeper: Keeper,
}

/// What keeps a user namespace alive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// A process is in it, or it owns another namespace.
    Use,
    /// A mount or a descriptor, and nothing else.
    Holder,
}

impl Foreign<'_> {
    fn ids(&self, kind: IdKind) -> &[HostSpan] {
        match kind {
            IdKind::Uid => self.uids,
            IdKind::Gid => self.gids,
        }
    }
}

/// Those that tasks live in, descriptors refer to or mounts hold.
fn namespaces(scan: &HostScan, findings: &mut Findings) {
    for owner in &scan.census.owners {
        let OwnerKind::UserNamespace { inode: Some(inode), pids, via, .. } = &owner.kind else { continue };
        if scan.pod_around(*inode).is_some() {
            continue;
        }
        let belonging = belonging(scan, *inode);
        let is_held_only = pids.is_empty() && belonging.is_none() && *via != Via::Belonging;
        let keeper = if is_held_only { Keeper::Holder } else { Keeper::Use };
        let kept = match (scan.walk.spaces.handle(NamespaceKind::User, *inode), pids.first()) {
            (Some(handle), None) => format!("kept by {handle}"),
            (_, Some(pid)) => format!("with process {pid} in it"),
            (None, None) => belonging.unwrap_or_else(|| owner.name.clone()),
        };
        let foreign = Foreign { inode: *inode, uids: &owner.uids, gids: &owner.gids, kept, keeper };
        judge(scan, &foreign, findings);
    }
}

/// A namespace of another kind that belongs to it, in words.
fn belonging(scan: &HostScan, userns: u64) -> Option<String> {
    let spaces = &scan.walk.spaces;
    let mut others = spaces.iter().filter(|(kind, ..)| *kind != NamespaceKind::User);
    let (kind, inode, handle) =
        others.find(|(kind, inode, _)| spaces.owner(*kind, *inode) == Some(userns))?;
    Some(words(kind, inode, handle))
}

fn words(kind: NamespaceKind, inode: u64, handle: impl std::fmt::Display) -> String {
    format!("kept by the {kind} namespace [{inode}] that belongs to it ({handle})")
}

/// Those that only own another namespace, and that the census has not met: it may have looked a moment before.
fn owners_of_others(scan: &HostScan, findings: &mut Findings) {
    let known: BTreeSet<u64> = scan
        .census
        .owners
        .iter()
        .filter_map(|owner| match &owner.kind {
            OwnerKind::UserNamespace { inode, .. } => *inode,
            _ => None,
        })
        .collect();
    let mut seen = BTreeSet::new();
    for (kind, inode, handle) in scan.walk.spaces.iter().filter(|(kind, ..)| *kind != NamespaceKind::User) {
        let Some(owner) = scan.walk.spaces.owner(kind, inode) else { continue };
        let skip = owner == HOST || known.contains(&owner) || is_the_hosts(&scan.walk, owner);
        if skip || scan.pod_around(owner).is_some() || !seen.insert(owner) {
            continue;
        }
        let kept = words(kind, inode, handle);
        let maps = scan.walk.spaces.open_owner(kind, inode).map(|space| visitor::maps_of(&space));
        match maps {
            Some(Ok(maps)) => owned(scan, owner, &maps, kept, findings),
            Some(Err(cause)) => {
                findings.unseen_on_node(format!(
                    "user namespace [{owner}], {kept}, cannot be looked into: {cause}"
                ));
            }
            // It has gone meanwhile.
            None => {}
        }
    }
}

fn owned(scan: &HostScan, inode: u64, maps: &Maps, kept: String, findings: &mut Findings) {
    let (uids, gids) = (maps.spans(IdKind::Uid), maps.spans(IdKind::Gid));
    judge(scan, &Foreign { inode, uids: &uids, gids: &gids, kept, keeper: Keeper::Use }, findings);
}

fn judge(scan: &HostScan, foreign: &Foreign<'_>, findings: &mut Findings) {
    // Of a pod, or made in one: what it shares with another pod, the two pods share.
    if scan.pod_around(foreign.inode).is_some() {
        return;
    }
    for pod in scan.isolated() {
        let met =
            KINDS.into_iter().find_map(|kind| Some((kind, pod.maps.meets_spans(kind, foreign.ids(kind))?)));
        let Some((kind, ids)) = met else { continue };
        if pod.home.is_some_and(|home| scan.walk.spaces.lies_in(home, foreign.inode)) {
            // As the host, it has power over all that was made in it.
            findings
                .note(pod, format!("its user namespace was made in [{}], {}", foreign.inode, foreign.kept));
            continue;
        }
        let same = KINDS.into_iter().all(|kind| pod.maps.spans(kind) == foreign.ids(kind));
        if same && foreign.keeper == Keeper::Holder {
            // An ID-mapped mount needs such a namespace; no process acts through it.
            let text =
                format!("user namespace [{}] has its map and no process, {}", foreign.inode, foreign.kept);
            findings.note(pod, text);
            continue;
        }
        let found = format!("user namespace [{}] maps {kind}s {ids}, {}", foreign.inode, foreign.kept);
        let expected = format!("{} in no user namespace but the pod's", pod.maps);
        findings.violated(Violation::new(What::ForeignNamespace, expected, found).of(pod));
    }
}
