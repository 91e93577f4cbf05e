//! May these two have IDs in common?

use ids::{HostSpan, IdKind};

use super::party::{Ground, Party};
use super::sweep::{Pair, Side};
use super::{Finding, LeaseClaim, Severity, What};
use crate::owner::{Home, Owner, OwnerKind};

/// `None` if they may.
pub(super) fn finding(pair: &Pair<'_>, ground: &Ground<'_>) -> Option<Finding> {
    // Either order is tried: the rules name each pair of kinds once.
    let fault = fault(pair, pair.a, pair.b, ground).or_else(|| fault(pair, pair.b, pair.a, ground))?;
    Some(Finding {
        what: fault.what,
        severity: Severity::Violation,
        between: vec![pair.a.party.name(), pair.b.party.name()],
        kind: pair.kind,
        ids: pair.ids,
        detail: fault.detail,
        hint: fault.hint.into(),
    })
}

struct Fault {
    what: What,
    detail: String,
    hint: &'static str,
}

const MOVE_POOL: &str = "take these IDs out of the pool or out of the other's range; \
                         pods that use them must be restarted with another block";
const RESTART_ONE: &str = "stop one of the two and start it again with another block";

fn fault(pair: &Pair<'_>, a: Side<Party<'_>>, b: Side<Party<'_>>, ground: &Ground<'_>) -> Option<Fault> {
    match (a.party, b.party) {
        (Party::Lease(x), Party::Lease(y)) => leases(pair, x, y),
        (Party::Lease(lease), Party::Owner(owner)) => against_lease(
            pair,
            Side { party: lease, span: a.span },
            Side { party: owner, span: b.span },
            ground,
        ),
        (Party::Owner(x), Party::Owner(y)) => {
            owners(pair, Side { party: x, span: a.span }, Side { party: y, span: b.span }, ground)
        }
        (Party::Owner(_), Party::Lease(_)) => None,
    }
}

fn leases(pair: &Pair<'_>, x: &LeaseClaim, y: &LeaseClaim) -> Option<Fault> {
    let one_shared_block = x.shared && y.shared && x.uids == y.uids && x.gids == y.gids;
    (!one_shared_block).then(|| overlap(pair, RESTART_ONE))
}

fn against_lease(
    pair: &Pair<'_>,
    lease: Side<&LeaseClaim>,
    owner: Side<&Owner>,
    ground: &Ground<'_>,
) -> Option<Fault> {
    let Side { party: lease, span: leased } = lease;
    let Side { party: owner, span } = owner;
    match &owner.kind {
        OwnerKind::KubeletRecord { pod, .. } if *pod == lease.holder => (span != leased).then(|| Fault {
            what: What::Overlap,
            detail: format!("the ledger gives pod {pod} {leased}, the kubelet's record {span}"),
            hint: "stop the pod, remove the record, start it again",
        }),
        OwnerKind::Podman { pod: Some(pod), .. } if *pod == lease.holder => None,
        OwnerKind::KubeletRecord { .. } => Some(overlap(pair, RESTART_ONE)),
        OwnerKind::Subuid { .. }
        | OwnerKind::Subgid { .. }
        | OwnerKind::Passwd { .. }
        | OwnerKind::Group { .. }
        | OwnerKind::Podman { .. }
        | OwnerKind::Incus { .. } => Some(overlap(pair, MOVE_POOL)),
        OwnerKind::UserNamespace { .. } => overreach(owner, leased, span, pair),
        OwnerKind::Process { home, .. } => foreign(owner, *home, pair, ground),
    }
}

fn owners(pair: &Pair<'_>, a: Side<&Owner>, b: Side<&Owner>, ground: &Ground<'_>) -> Option<Fault> {
    use OwnerKind as K;
    match (&a.party.kind, &b.party.kind) {
        (K::KubeletRecord { .. }, K::KubeletRecord { .. }) => Some(overlap(pair, RESTART_ONE)),
        (K::KubeletRecord { pod, .. }, K::Podman { pod: Some(other), .. }) if pod == other => None,
        (
            K::KubeletRecord { .. },
            K::Subuid { .. }
            | K::Subgid { .. }
            | K::Passwd { .. }
            | K::Group { .. }
            | K::Podman { .. }
            | K::Incus { .. },
        ) => Some(overlap(pair, MOVE_POOL)),
        (K::KubeletRecord { .. }, K::UserNamespace { .. }) => overreach(b.party, a.span, b.span, pair),
        (K::KubeletRecord { .. }, K::Process { home, .. }) => foreign(b.party, *home, pair, ground),
        (K::Subuid { owner: x, .. }, K::Subuid { owner: y, .. })
        | (K::Subgid { owner: x, .. }, K::Subgid { owner: y, .. })
            if x != y =>
        {
            Some(overlap(pair, "give each owner a range of its own"))
        }
        (K::Podman { .. }, K::Incus { .. }) => Some(overlap(pair, RESTART_ONE)),
        (K::UserNamespace { .. }, K::UserNamespace { .. }) => namespaces(pair, a, b, ground),
        _ => None,
    }
}

/// Two namespaces may share IDs inside one claim, and when one is nested in the other. A single ID
/// is what any user may map, their own.
fn namespaces(pair: &Pair<'_>, a: Side<&Owner>, b: Side<&Owner>, ground: &Ground<'_>) -> Option<Fault> {
    let single = a.span.length() == 1 && b.span.length() == 1;
    let fine = single
        || ground.one_claim_covers(pair.kind, a.span, b.span)
        || nested(a.party, b.party, ground)
        || nested(b.party, a.party, ground);
    (!fine).then(|| overlap(pair, RESTART_ONE))
}

fn nested(inner: &Owner, outer: &Owner, ground: &Ground<'_>) -> bool {
    let inside = [IdKind::Uid, IdKind::Gid].into_iter().all(|kind| {
        inner.ids(kind).iter().all(|span| outer.ids(kind).iter().any(|around| around.covers(*span)))
    });
    // Without processes the ancestry is unknown, and the map has to do.
    inside && (ground.lies_below(inner, outer) || has_no_process(inner) || has_no_process(outer))
}

fn has_no_process(namespace: &Owner) -> bool {
    matches!(&namespace.kind, OwnerKind::UserNamespace { pids, .. } if pids.is_empty())
}

/// A namespace inside the block is the holder's; one that reaches out of it is not.
fn overreach(namespace: &Owner, block: HostSpan, span: HostSpan, pair: &Pair<'_>) -> Option<Fault> {
    (!block.covers(span)).then(|| Fault {
        what: What::Overlap,
        detail: format!("{} maps {}s {span}, more than the block {block}", namespace.name, pair.kind),
        hint: RESTART_ONE,
    })
}

fn foreign(process: &Owner, home: Home, pair: &Pair<'_>, ground: &Ground<'_>) -> Option<Fault> {
    let maps = |inode| {
        let mapped = ground.namespace(inode).map(|n| n.ids(pair.kind));
        mapped.is_some_and(|spans| spans.iter().any(|s| s.covers(pair.ids)))
    };
    let at_home = match home {
        Home::Host => false,
        Home::Inode(inode) => maps(inode),
        // A blind spot, and reported as that.
        Home::Unknown => true,
    };
    (!at_home).then(|| Fault {
        what: What::ForeignProcess,
        detail: format!(
            "{} has {} {} of a block that its user namespace does not map",
            process.name, pair.kind, pair.ids
        ),
        hint: "find the process that started it; it can act on the files and processes of the pod",
    })
}

fn overlap(pair: &Pair<'_>, hint: &'static str) -> Fault {
    let (a, b) = (pair.a.party.name(), pair.b.party.name());
    Fault { what: What::Overlap, detail: format!("{a} and {b} both have {}s {}", pair.kind, pair.ids), hint }
}
