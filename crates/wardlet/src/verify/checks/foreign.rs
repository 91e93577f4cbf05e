//! Nobody else has IDs of a pod's block: no process, and no user namespace whatever keeps it.

use std::collections::BTreeSet;

use census::{OwnerKind, Via};
use ids::{HostSpan, IdKind};
use kernel::NamespaceKind;

use crate::verify::look::Look;
use crate::verify::maps::Maps;
use crate::verify::pods::{Pod, is_the_hosts};
use crate::verify::spaces::HOST;
use crate::verify::violation::{Findings, Violation, What};
use crate::verify::visitor;

const KINDS: [IdKind; 2] = [IdKind::Uid, IdKind::Gid];

pub(super) fn check(look: &Look, findings: &mut Findings) {
    processes(look, findings);
    namespaces(look, findings);
    owners_of_others(look, findings);
}

fn processes(look: &Look, findings: &mut Findings) {
    for owner in &look.census.owners {
        let OwnerKind::Process { pid, .. } = owner.kind else { continue };
        for pod in look.isolated() {
            let met =
                KINDS.into_iter().find_map(|kind| Some((kind, pod.maps.meets_spans(kind, owner.ids(kind))?)));
            let Some((kind, ids)) = met else { continue };
            if is_of(look, pod, pid) || pod_of(look, pid).is_some_and(|other| may_share(look, pod, other)) {
                continue;
            }
            let found = format!("{} has {kind} {} and is not of the pod", owner.name, ids.first());
            let expected = format!("{} for processes of the pod alone", pod.maps);
            findings.violated(Violation::new(What::ForeignProcess, expected, found).of(pod).by(pid));
        }
    }
}

fn is_of(look: &Look, pod: &Pod, pid: u32) -> bool {
    pod.processes.iter().any(|at| look.walk.processes.get(*at).is_some_and(|process| process.pid == pid))
}

fn pod_of(look: &Look, pid: u32) -> Option<&Pod> {
    look.pods.iter().find(|pod| is_of(look, pod, pid))
}

/// Whether two pods have IDs in common that `overlap` allows.
fn may_share(look: &Look, one: &Pod, two: &Pod) -> bool {
    let both_podmans = one.is_podmans() && two.is_podmans();
    look.share_a_lease(one, two) || (both_podmans && one.maps.meets(&two.maps).is_some())
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

/// Who keeps a user namespace.
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
fn namespaces(look: &Look, findings: &mut Findings) {
    for owner in &look.census.owners {
        let OwnerKind::UserNamespace { inode: Some(inode), pids, via, .. } = &owner.kind else { continue };
        if look.pod_around(*inode).is_some() {
            continue;
        }
        let belonging = belonging(look, *inode);
        let is_held_only = pids.is_empty() && belonging.is_none() && *via != Via::Belonging;
        let keeper = if is_held_only { Keeper::Holder } else { Keeper::Use };
        let kept = match (look.walk.spaces.handle(NamespaceKind::User, *inode), pids.first()) {
            (Some(handle), None) => format!("kept by {handle}"),
            (_, Some(pid)) => format!("with process {pid} in it"),
            (None, None) => belonging.unwrap_or_else(|| owner.name.clone()),
        };
        let foreign = Foreign { inode: *inode, uids: &owner.uids, gids: &owner.gids, kept, keeper };
        judge(look, &foreign, findings);
    }
}

/// A namespace of another kind that belongs to it, in words.
fn belonging(look: &Look, userns: u64) -> Option<String> {
    let spaces = &look.walk.spaces;
    let mut others = spaces.iter().filter(|(kind, ..)| *kind != NamespaceKind::User);
    let (kind, inode, handle) =
        others.find(|(kind, inode, _)| spaces.owner(*kind, *inode) == Some(userns))?;
    Some(words(kind, inode, handle))
}

fn words(kind: NamespaceKind, inode: u64, handle: impl std::fmt::Display) -> String {
    format!("kept by the {kind} namespace [{inode}] that belongs to it ({handle})")
}

/// Those that only own another namespace, and that the census has not met: it may have looked a moment before.
fn owners_of_others(look: &Look, findings: &mut Findings) {
    let known: BTreeSet<u64> = look
        .census
        .owners
        .iter()
        .filter_map(|owner| match &owner.kind {
            OwnerKind::UserNamespace { inode, .. } => *inode,
            _ => None,
        })
        .collect();
    let mut seen = BTreeSet::new();
    for (kind, inode, handle) in look.walk.spaces.iter().filter(|(kind, ..)| *kind != NamespaceKind::User) {
        let Some(owner) = look.walk.spaces.owner(kind, inode) else { continue };
        let skip = owner == HOST || known.contains(&owner) || is_the_hosts(&look.walk, owner);
        if skip || look.pod_around(owner).is_some() || !seen.insert(owner) {
            continue;
        }
        let kept = words(kind, inode, handle);
        let maps = look.walk.spaces.open_owner(kind, inode).map(|space| visitor::maps_of(&space));
        match maps {
            Some(Ok(maps)) => owned(look, owner, (&maps, kept), findings),
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

fn owned(look: &Look, inode: u64, (maps, kept): (&Maps, String), findings: &mut Findings) {
    let (uids, gids) = (maps.spans(IdKind::Uid), maps.spans(IdKind::Gid));
    judge(look, &Foreign { inode, uids: &uids, gids: &gids, kept, keeper: Keeper::Use }, findings);
}

fn judge(look: &Look, foreign: &Foreign<'_>, findings: &mut Findings) {
    // Of a pod, or made in one: what it shares with another pod, the two pods share.
    if look.pod_around(foreign.inode).is_some() {
        return;
    }
    for pod in look.isolated() {
        let met =
            KINDS.into_iter().find_map(|kind| Some((kind, pod.maps.meets_spans(kind, foreign.ids(kind))?)));
        let Some((kind, ids)) = met else { continue };
        if pod.home.is_some_and(|home| look.walk.spaces.lies_in(home, foreign.inode)) {
            // As the host, it has power over all that was made in it.
            findings
                .note(pod, format!("its user namespace was made in [{}], {}", foreign.inode, foreign.kept));
            continue;
        }
        let same = KINDS.into_iter().all(|kind| pod.maps.spans(kind) == foreign.ids(kind));
        if same && foreign.keeper == Keeper::Holder {
            // Whoever idmaps a mount needs such a namespace; nothing acts through it.
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
