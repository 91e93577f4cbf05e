//! From draining to quarantine to free: on what the witness saw, and on nothing else.

use ids::IdKind;
use ids::allocator::{LeaseId, State};
use ids::witness::Sighting;

use crate::error::LedgerError;
use crate::holder::Holder;
use crate::lease::Lease;
use crate::lease_table::{LeaseTable, Moment};

/// A lease that is neither held nor free, as it was when the witness was sent to look.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    id: LeaseId,
    /// If the row has changed meanwhile, what was seen says nothing about it.
    seq: u64,
    pub(crate) places: Vec<String>,
}

/// What the witness brought back.
#[derive(Debug)]
pub(crate) struct Testimony {
    pub(crate) sighting: Sighting,
    /// For each candidate, the places that still exist.
    pub(crate) remaining: Vec<Vec<String>>,
}

/// What became of one lease, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The lease as it was before.
    pub lease: Lease,
    /// What follows.
    pub outcome: Outcome,
}

/// What follows from what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Vacant: it rests until this second.
    Quarantined {
        /// Seconds since 1970.
        until: u64,
    },
    /// Vacant and rested: it can be given out again.
    Freed,
    /// Still in use, by those named.
    InUse(Vec<String>),
    /// Vacant, but its rest is not over.
    Resting {
        /// Seconds since 1970.
        until: u64,
    },
    /// What could not be looked into may hide a user.
    Unseen(Vec<String>),
}

impl LeaseTable {
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let waiting = self
            .leases
            .values()
            .filter(|r| matches!(r.state(), Some(State::Draining | State::Quarantined { .. })));
        waiting.map(|r| Candidate { id: r.id, seq: r.seq, places: r.places.clone() }).collect()
    }

    /// What follows for each candidate that has not changed since.
    pub(crate) fn judge(
        &self,
        candidates: &[Candidate],
        testimony: &Testimony,
        rest: u64,
        moment: &Moment,
    ) -> Vec<Verdict> {
        let judged = candidates.iter().zip(&testimony.remaining).filter_map(|(c, remaining)| {
            let row = self.leases.get(&c.id).filter(|r| r.seq == c.seq)?;
            let mut users: Vec<String> = [(IdKind::Uid, row.uids), (IdKind::Gid, row.gids)]
                .into_iter()
                .filter_map(|(kind, block)| testimony.sighting.live_user(kind, block.span()))
                .map(|u| u.by.clone())
                .collect();
            users.dedup();
            users.extend(remaining.iter().map(|p| format!("{p} still exists")));
            let outcome = match row.state()? {
                _ if !users.is_empty() => Outcome::InUse(users),
                _ if !testimony.sighting.blind().is_empty() => {
                    Outcome::Unseen(testimony.sighting.blind().to_vec())
                }
                State::Draining => Outcome::Quarantined { until: moment.now + rest },
                State::Quarantined { until } if until > moment.now => Outcome::Resting { until },
                State::Quarantined { .. } => Outcome::Freed,
                State::Leased | State::Pinned => return None,
            };
            Some(Verdict { lease: self.view(row, moment), outcome })
        });
        judged.collect()
    }

    /// Executes the verdicts.
    pub(crate) fn execute(&mut self, verdicts: &[Verdict], moment: &Moment) -> Result<(), LedgerError> {
        for Verdict { lease, outcome } in verdicts {
            match outcome {
                Outcome::Quarantined { until } => {
                    self.set_state(lease.id, State::Quarantined { until: *until }, moment)?;
                }
                Outcome::Freed => self.free(lease.id, moment)?,
                // Its IDs came into use during the quarantine: it drains again.
                Outcome::InUse(_) if matches!(lease.state, State::Quarantined { .. }) => {
                    self.set_state(lease.id, State::Draining, moment)?;
                }
                Outcome::InUse(_) | Outcome::Resting { .. } | Outcome::Unseen(_) => {}
            }
        }
        Ok(())
    }

    /// Makes a pinned block draining: a scan must still find it vacant.
    pub(crate) fn unpin(&mut self, base: u32, moment: &Moment) -> Result<Lease, LedgerError> {
        let pinned =
            |r: &&crate::row::LeaseRow| r.uids.base().get() == base && r.state() == Some(State::Pinned);
        let id = self.leases.values().find(pinned).map(|r| r.id).ok_or(LedgerError::NotPinned { base })?;
        self.set_state(id, State::Draining, moment)
    }

    /// Durable leases of earlier boots that no caller has confirmed since.
    pub(crate) fn of_earlier_boots(&self, moment: &Moment) -> Vec<Holder> {
        let old = |r: &&crate::row::LeaseRow| {
            r.boot != moment.boot && r.state() == Some(State::Leased) && !r.shared
        };
        self.leases.values().filter(old).filter_map(|r| r.holder.clone()).collect()
    }
}
