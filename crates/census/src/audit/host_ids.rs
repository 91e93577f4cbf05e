//! The host's own IDs, and the last one, given away.

use ids::{HostId, HostSpan, IdKind, UNIT};

use super::{Finding, Severity, What};
use crate::owner::{Owner, OwnerKind, Report};

pub(super) fn findings(report: &Report) -> Vec<Finding> {
    let kinds = [IdKind::Uid, IdKind::Gid];
    let spans = report.owners.iter().flat_map(|owner| {
        kinds.into_iter().flat_map(move |kind| owner.ids(kind).iter().map(move |span| (owner, kind, *span)))
    });
    spans
        .flat_map(|(owner, kind, span)| [of_host(owner, kind, span), last(owner, kind, span)])
        .flatten()
        .collect()
}

fn of_host(owner: &Owner, kind: IdKind, span: HostSpan) -> Option<Finding> {
    let (severity, hint) = match &owner.kind {
        OwnerKind::KubeletRecord { .. } => {
            (Severity::Violation, "stop the pod at once: root inside is a host account outside")
        }
        // One ID passed on by name is how a host account is shared with a container on purpose.
        OwnerKind::Subuid { .. } | OwnerKind::Subgid { .. } if span.length() == 1 => {
            (Severity::Note, "remove the line unless the account is shared on purpose")
        }
        OwnerKind::Subuid { .. } | OwnerKind::Subgid { .. } => {
            (Severity::Violation, "start the range at 65536 or higher")
        }
        _ => return None,
    };
    let end = u64::from(span.last()).min(UNIT - 1);
    let first = HostId::try_from(u64::from(span.first())).ok()?;
    let ids = HostSpan::between(first, HostId::try_from(end).ok()?)?;
    Some(Finding {
        what: What::HostIds,
        severity,
        between: vec![owner.name.clone()],
        kind,
        ids,
        detail: format!("{} holds {kind}s {ids}, which are the host's own", owner.name),
        hint: hint.into(),
    })
}

fn last(owner: &Owner, kind: IdKind, ids: HostSpan) -> Option<Finding> {
    let reaches = matches!(owner.kind, OwnerKind::KubeletRecord { reaches_last_id: true, .. });
    reaches.then(|| Finding {
        what: What::HostIds,
        severity: Severity::Violation,
        between: vec![owner.name.clone()],
        kind,
        ids,
        detail: format!("{} ends at {kind} 4294967295, which the kernel never maps", owner.name),
        hint: "the pod cannot start: remove it, and end the kubelet's range one block earlier".into(),
    })
}
