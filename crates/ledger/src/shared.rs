//! Shared leases: one named block that many holders join and leave. The only overlap there is.

use ids::IdBlock;
use ids::IdKind;
use ids::allocator::{LeaseId, State};
use ids::witness::Sighting;

use crate::error::LedgerError;
use crate::holder::Holder;
use crate::lease::{Lease, LeaseRequest};
use crate::lease_table::{LeaseTable, Moment, new_row};
use crate::row::{LeaseRow, MemberRow};

/// What a release came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// The block is draining: it goes on once it is seen to be vacant.
    Draining(Lease),
    /// The holder has left a shared lease that others still use.
    Left(Lease),
    /// There was nothing to release.
    NothingHeld,
}

impl LeaseTable {
    /// Lets `request.holder` join the shared lease `shared`, which is made if there is none. The
    /// length is asked of a new one only.
    pub(crate) fn join(
        &mut self,
        shared: &Holder,
        request: &LeaseRequest,
        seen: &Sighting,
        moment: &Moment,
    ) -> Result<Lease, LedgerError> {
        let holder = &request.holder;
        if holder == shared {
            return Err(LedgerError::OtherSort { holder: holder.clone(), shared: true });
        }
        if let Some(member) = self.member(holder) {
            let of = self.holder_name(member.lease);
            if of.as_ref() != Some(shared) {
                self.refuse_member(holder)?;
            }
        } else if self.lease_of(holder).is_some() {
            return Err(LedgerError::OtherSort { holder: holder.clone(), shared: false });
        }
        let id = self.shared_lease(shared, request, seen, moment)?;
        if self.member(holder).is_none_or(|m| m.boot != moment.boot) {
            self.put_member(MemberRow {
                seq: 0,
                lease: id,
                holder: holder.clone(),
                joined: true,
                tenure: request.tenure,
                since: moment.now,
                boot: moment.boot.clone(),
            });
        }
        self.lease_view(id, moment)
    }

    fn shared_lease(
        &mut self,
        shared: &Holder,
        request: &LeaseRequest,
        seen: &Sighting,
        moment: &Moment,
    ) -> Result<LeaseId, LedgerError> {
        if let Some(row) = self.lease_of(shared) {
            let (id, state) = (row.id, row.state());
            if !row.shared || self.member(shared).is_some() {
                return Err(LedgerError::OtherSort { holder: shared.clone(), shared: false });
            }
            if state != Some(State::Leased) {
                self.set_state(id, State::Leased, moment)?;
            }
            return Ok(id);
        }
        let id = LeaseId(self.head.next);
        let named = LeaseRequest { holder: shared.clone(), ..request.clone() };
        let categories = self.pair_for(&named)?;
        let length = request.length.unwrap_or(self.allocator.pool().block());
        let avoid = |kind: IdKind, block: IdBlock| seen.users(kind, block.span()).next().map(|u| u.ids);
        let leased = self.allocator.lease(id, length, &avoid);
        let blocks = leased.map_err(|source| LedgerError::Lease { holder: shared.clone(), source })?;
        let row = LeaseRow { shared: true, categories, ..new_row(id, blocks, &named, moment) };
        self.put_new(row, moment);
        Ok(id)
    }

    /// Gives back what `holder` has, or leaves what it has joined.
    pub(crate) fn release(&mut self, holder: &Holder, moment: &Moment) -> Result<Released, LedgerError> {
        if let Some(member) = self.member(holder).cloned() {
            let lease = member.lease;
            self.put_member(MemberRow { joined: false, since: moment.now, ..member });
            if self.members_of(lease).is_empty() {
                return self.set_state(lease, State::Draining, moment).map(Released::Draining);
            }
            return self.lease_view(lease, moment).map(Released::Left);
        }
        let Some(row) = self.lease_of(holder).cloned() else { return Ok(Released::NothingHeld) };
        if let Some(first) = self.members_of(row.id).into_iter().next() {
            let members = self.members_of(row.id).len();
            return Err(LedgerError::HasMembers { shared: holder.clone(), members, first });
        }
        match row.state() {
            Some(State::Leased) => self.set_state(row.id, State::Draining, moment).map(Released::Draining),
            // Already on its way; asking again changes nothing.
            _ => Ok(Released::Draining(self.view(&row, moment))),
        }
    }

    pub(crate) fn lease_view(&self, id: LeaseId, moment: &Moment) -> Result<Lease, LedgerError> {
        let row = self.leases.get(&id).ok_or(ids::allocator::Transition::Unknown(id))?;
        Ok(self.view(row, moment))
    }

    /// Sends everything that no reboot survives, and that is of another boot, on its way.
    pub(crate) fn after_reboot(&mut self, moment: &Moment) -> Result<(), LedgerError> {
        for holder in self.members_of_earlier_boots(&moment.boot) {
            self.release(&holder, moment)?;
        }
        let gone = |r: &&LeaseRow| {
            r.tenure == crate::lease::Tenure::UntilReboot
                && r.boot != moment.boot
                && r.state() == Some(State::Leased)
                && !r.shared
        };
        let ids: Vec<LeaseId> = self.leases.values().filter(gone).map(|r| r.id).collect();
        for id in ids {
            self.set_state(id, State::Draining, moment)?;
        }
        Ok(())
    }
}
