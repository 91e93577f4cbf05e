//! Leases as callers see them, read from the lease table.

use ids::IdKind;
use ids::allocator::{LeaseId, State};

use crate::clock::BootId;
use crate::holder::Holder;
use crate::lease::{Lease, Tenure};
use crate::lease_table::{LeaseTable, Moment};
use crate::row::{LeaseRow, MemberRow};

impl LeaseTable {
    pub(crate) fn member(&self, holder: &Holder) -> Option<&MemberRow> {
        self.members.get(holder).filter(|m| m.joined)
    }

    pub(crate) fn members_of(&self, id: LeaseId) -> Vec<Holder> {
        let joined = self.members.values().filter(|m| m.lease == id && m.joined);
        let mut holders: Vec<Holder> = joined.map(|m| m.holder.clone()).collect();
        holders.sort();
        holders
    }

    /// Members that were to last until a reboot and are of another boot.
    pub(crate) fn members_of_earlier_boots(&self, boot: &BootId) -> Vec<Holder> {
        let gone = |m: &&MemberRow| m.joined && m.tenure == Tenure::UntilReboot && m.boot != *boot;
        self.members.values().filter(gone).map(|m| m.holder.clone()).collect()
    }

    /// A lease as others see it.
    pub(crate) fn view(&self, row: &LeaseRow, moment: &Moment) -> Lease {
        Lease {
            id: row.id,
            holder: row.holder.clone(),
            state: row.state().unwrap_or(State::Pinned),
            uids: row.uids,
            gids: row.gids,
            members: row.shared.then(|| self.members_of(row.id)),
            tenure: row.tenure,
            since: row.since,
            earlier_boot: row.boot != moment.boot,
            places: row.places.iter().map(Into::into).collect(),
            categories: row.categories,
            note: row.reason.clone().or_else(|| self.note(row)),
        }
    }

    fn note(&self, row: &LeaseRow) -> Option<String> {
        let pool = self.allocator.pool();
        let inside = pool.holds(IdKind::Uid, row.uids) && pool.holds(IdKind::Gid, row.gids);
        (!inside).then(|| {
            format!(
                "lies outside the pool ({}): stays its holder's until released, and is not leased again",
                pool.origin()
            )
        })
    }
}
