//! IDs in use that no file claims, and claims that are not in use.

use std::collections::HashSet;

use ids::{HostSpan, IdKind};

use super::party::{Ground, Party};
use super::sweep::Pair;
use super::{Finding, Severity, What};
use crate::owner::{Home, Owner, OwnerKind};

pub(super) fn leaks(parties: &[Party<'_>], kind: IdKind, ground: &Ground<'_>) -> Vec<Finding> {
    let mut leaks = Vec::new();
    for party in parties {
        let Party::Owner(owner) = party else { continue };
        let own_map = match owner.kind {
            OwnerKind::UserNamespace { .. } => &[],
            // What its namespace maps is found, or claimed, with the namespace.
            OwnerKind::Process { home: Home::Inode(inode), .. } => {
                ground.namespace(inode).map_or(&[][..], |n| n.ids(kind))
            }
            OwnerKind::Process { home: Home::Host, .. } => &[],
            _ => continue,
        };
        for span in party.ids(kind) {
            let parts = without(span, ground.claims(kind)).into_iter().flat_map(|p| without(p, own_map));
            leaks.extend(parts.map(|unclaimed| leak(owner, kind, span, unclaimed)));
        }
    }
    leaks
}

/// `unclaimed` is the part of `span` that no file or lease claims.
fn leak(owner: &Owner, kind: IdKind, span: HostSpan, unclaimed: HostSpan) -> Finding {
    let namespace = matches!(owner.kind, OwnerKind::UserNamespace { .. });
    let (severity, hint) = match namespace {
        // Any user may map their own single ID; an account of a directory service is in no file.
        true if span.length() == 1 => (Severity::Note, "an account of a directory service, most likely"),
        true => (
            Severity::Violation,
            "find the tool that created it; lease its IDs, or give them a line in subuid and subgid",
        ),
        false => (
            Severity::Violation,
            "find the process that started it; if it is an account of a directory service, keep its IDs out of the pool",
        ),
    };
    let verb = if namespace { "maps" } else { "has" };
    Finding {
        what: What::Leak,
        severity,
        between: vec![owner.name.clone()],
        kind,
        ids: unclaimed,
        detail: format!("{} {verb} {kind}s {unclaimed}, which no file or lease claims", owner.name),
        hint: hint.into(),
    }
}

pub(super) fn unused_records(parties: &[Party<'_>], kind: IdKind, pairs: &[Pair<'_>]) -> Vec<Finding> {
    // One note per record is enough: it has the same IDs in both spaces.
    if kind == IdKind::Gid {
        return vec![];
    }
    let mut used = HashSet::new();
    for pair in pairs {
        used.extend(pair.b.party.is_user().then_some(pair.places.0));
        used.extend(pair.a.party.is_user().then_some(pair.places.1));
    }
    let records = parties.iter().enumerate().filter(|(place, _)| !used.contains(place));
    records
        .filter_map(|(_, party)| match party {
            Party::Owner(o @ Owner { kind: OwnerKind::KubeletRecord { .. }, .. }) => Some(*o),
            _ => None,
        })
        .flat_map(|owner| owner.uids.iter().map(move |ids| unused(owner, *ids)))
        .collect()
}

fn unused(owner: &Owner, ids: HostSpan) -> Finding {
    Finding {
        what: What::UnusedRecord,
        severity: Severity::Note,
        between: vec![owner.name.clone()],
        kind: IdKind::Uid,
        ids,
        detail: format!("no process uses the IDs of the {}", owner.name),
        hint: "normal for a pod that is starting or has ended; the kubelet removes it with the pod".into(),
    }
}

/// The parts of `span` that remain when all of `taken`, in any order, is cut out.
fn without(span: HostSpan, taken: &[HostSpan]) -> Vec<HostSpan> {
    let mut cuts: Vec<_> = taken.iter().filter_map(|t| t.intersection(span)).collect();
    cuts.sort();
    let mut left = Vec::new();
    let mut next = u64::from(span.first());
    for cut in cuts {
        left.extend(HostSpan::new(next, u64::from(cut.first()).saturating_sub(next)));
        next = next.max(cut.end());
    }
    left.extend(HostSpan::new(next, span.end().saturating_sub(next)));
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, length: u64) -> HostSpan {
        HostSpan::new(first, length).unwrap()
    }

    #[test]
    fn what_is_left_of_a_span_is_what_no_cut_holds() {
        assert_eq!(without(span(10, 10), &[]), [span(10, 10)]);
        assert_eq!(without(span(10, 10), &[span(0, 100)]), []);
        assert_eq!(without(span(10, 10), &[span(14, 2), span(5, 6)]), [span(11, 3), span(16, 4)]);
        assert_eq!(without(span(10, 10), &[span(10, 5), span(12, 8)]), []);
        let end = u64::from(u32::MAX) - 5;
        assert_eq!(without(span(end, 5), &[span(end + 1, 1)]), [span(end, 1), span(end + 2, 3)]);
    }
}
