//! The parties of an audit: users and claims of IDs.

use std::collections::HashMap;

use ids::{HostId, HostSpan, IdKind, UNIT};

use super::LeaseClaim;
use crate::owner::{Owner, OwnerKind};

/// A lease or an owner.
#[derive(Clone, Copy)]
pub(super) enum Party<'a> {
    Lease(&'a LeaseClaim),
    Owner(&'a Owner),
}

impl<'a> Party<'a> {
    pub(super) fn name(self) -> String {
        match self {
            Self::Lease(l) => format!("lease of {} ({})", l.holder, l.state),
            Self::Owner(o) => o.name.clone(),
        }
    }

    /// Its IDs from 65536 up. Those below are the host's: no lease has them, and rootless tools map
    /// a single one of them rightly.
    pub(super) fn ids(self, kind: IdKind) -> impl Iterator<Item = HostSpan> + 'a {
        let all: &[HostSpan] = match (self, kind) {
            (Self::Lease(l), IdKind::Uid) => std::slice::from_ref(&l.uids),
            (Self::Lease(l), IdKind::Gid) => std::slice::from_ref(&l.gids),
            (Self::Owner(o), kind) => o.ids(kind),
        };
        all.iter().filter_map(|span| above_host(*span))
    }

    fn owner_kind(self) -> Option<&'a OwnerKind> {
        match self {
            Self::Lease(_) => None,
            Self::Owner(o) => Some(&o.kind),
        }
    }

    /// A use, not a claim.
    pub(super) fn is_user(self) -> bool {
        matches!(self.owner_kind(), Some(OwnerKind::Process { .. } | OwnerKind::UserNamespace { .. }))
    }
}

pub(super) fn above_host(span: HostSpan) -> Option<HostSpan> {
    let from = u64::from(span.first()).max(UNIT);
    HostSpan::between(HostId::try_from(from).ok()?, HostId::try_from(u64::from(span.last())).ok()?)
}

/// What a pair is judged against: all claims, and all user namespaces by their inode.
pub(super) struct Ground<'a> {
    uids: Vec<HostSpan>,
    gids: Vec<HostSpan>,
    namespaces: HashMap<u64, &'a Owner>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(parties: &[Party<'a>]) -> Self {
        let claims = |kind| {
            let claimants = parties.iter().filter(|p| !p.is_user());
            let mut spans: Vec<_> = claimants.flat_map(|p| p.ids(kind)).collect();
            spans.sort();
            spans
        };
        let namespaces = parties.iter().filter_map(|p| match p {
            Party::Owner(o @ Owner { kind: OwnerKind::UserNamespace { inode: Some(i), .. }, .. }) => {
                Some((*i, *o))
            }
            _ => None,
        });
        Self { uids: claims(IdKind::Uid), gids: claims(IdKind::Gid), namespaces: namespaces.collect() }
    }

    /// Every claimed span, by first ID.
    pub(super) fn claims(&self, kind: IdKind) -> &[HostSpan] {
        match kind {
            IdKind::Uid => &self.uids,
            IdKind::Gid => &self.gids,
        }
    }

    /// Whether one claim covers both.
    pub(super) fn one_claim_covers(&self, kind: IdKind, a: HostSpan, b: HostSpan) -> bool {
        self.claims(kind).iter().any(|claim| claim.covers(a) && claim.covers(b))
    }

    pub(super) fn namespace(&self, inode: u64) -> Option<&'a Owner> {
        self.namespaces.get(&inode).copied()
    }

    /// Whether `inner` lies somewhere below `outer`, by the ancestry of their processes.
    pub(super) fn lies_below(&self, inner: &Owner, outer: &Owner) -> bool {
        let mut current = Some(inner);
        for _ in 0..=self.namespaces.len() {
            let around = current.and_then(around).and_then(|inode| self.namespace(inode));
            match around {
                Some(o) if std::ptr::eq(o, outer) => return true,
                None => return false,
                further => current = further,
            }
        }
        false
    }
}

fn around(owner: &Owner) -> Option<u64> {
    match owner.kind {
        OwnerKind::UserNamespace { enclosing, .. } => enclosing,
        _ => None,
    }
}
