//! Taking a kubelet's node over in place, and giving it back: all of its records at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ids::IdBlock;
use ids::allocator::{Blocks, LeaseId, State};

use crate::error::LedgerError;
use crate::holder::Holder;
use crate::kubelet::{RecordFile, read_records, write_record};
use crate::lease::{Lease, LeaseRequest};
use crate::lease_table::{LeaseTable, Moment};
use crate::ledger::{Ledger, check_place};
use crate::row::LeaseRow;

/// What became of one record.
#[derive(Debug)]
pub struct Imported {
    /// The file.
    pub path: PathBuf,
    /// The pod's UID.
    pub pod: String,
    /// Its lease, or why it has none.
    pub outcome: Result<Lease, String>,
}

/// What became of one lease that was to be handed back.
#[derive(Debug)]
pub struct Exported {
    /// Whose lease it is.
    pub holder: Holder,
    /// The record that was written, or why there is none.
    pub outcome: Result<PathBuf, String>,
}

impl Ledger {
    /// Enters every record under `pods` as the lease of its pod. One that cannot be is named and
    /// stops none of the others. Doing it again changes nothing.
    pub fn import(&self, pods: &Path) -> Result<Vec<Imported>, LedgerError> {
        let files = read_records(pods)?;
        let claims: Vec<_> = files.iter().map(RecordFile::claim).collect();
        let outcomes = self.adopt_all(claims)?;
        let done = files.into_iter().zip(outcomes);
        Ok(done.map(|(file, outcome)| Imported { path: file.path, pod: file.pod, outcome }).collect())
    }

    /// All of a node's records in one transaction.
    fn adopt_all(
        &self,
        claims: Vec<Result<(Holder, IdBlock), String>>,
    ) -> Result<Vec<Result<Lease, String>>, LedgerError> {
        self.submit(move |table, moment| {
            let adopt = |table: &mut LeaseTable, holder, block| {
                table
                    .adopt(&LeaseRequest::new(holder), Blocks::same(block), moment)
                    .map_err(|e| e.to_string())
            };
            Ok(claims
                .into_iter()
                .map(|c| c.and_then(|(holder, block)| adopt(table, holder, block)))
                .collect())
        })
    }

    /// Records blocks that another agent of this node has given to the holder, with places. Where the ledger still has them
    /// for a holder in `gone`, of which nothing exists any more, or for none (released, resting, pinned), this lease takes
    /// their place: the other agent has given them out again meanwhile. Doing it again changes nothing. Fails with
    /// [`LedgerError::Adoption`] if they overlap another lease, or one that reaches beyond them.
    pub fn take_over(
        &self,
        request: LeaseRequest,
        blocks: Blocks,
        gone: BTreeSet<Holder>,
    ) -> Result<Lease, LedgerError> {
        request.places.iter().try_for_each(|place| check_place(place))?;
        self.submit(move |table, moment| table.take_over(&request, blocks, &gone, moment))
    }

    /// Writes the record of every lease whose holder has a directory under `pods`, as the kubelet
    /// itself would have.
    pub fn export(&self, pods: &Path) -> Result<Vec<Exported>, LedgerError> {
        let mut done = Vec::new();
        for lease in self.list()? {
            let Some(holder) = lease.holder.clone().filter(|_| lease.state == State::Leased) else {
                continue;
            };
            if lease.members.is_some() || !pods.join(holder.as_str()).is_dir() {
                continue;
            }
            done.push(Exported { outcome: write_record(pods, &holder, &lease), holder });
        }
        Ok(done)
    }
}

impl LeaseTable {
    fn take_over(
        &mut self,
        request: &LeaseRequest,
        blocks: Blocks,
        gone: &BTreeSet<Holder>,
        moment: &Moment,
    ) -> Result<Lease, LedgerError> {
        let own = self.lease_of(&request.holder);
        if own.is_none_or(|row| row.blocks() == blocks) {
            let own = own.map(|row| row.id);
            let rivals = || self.leases.values().filter(|row| Some(row.id) != own && overlap(row, blocks));
            if rivals().all(|row| is_over(row, gone) && is_within(row, blocks)) {
                for id in rivals().map(|row| row.id).collect::<Vec<_>>() {
                    self.vacate(id, moment)?;
                }
            }
        }
        // It names the lease that is in the way.
        self.adopt(request, blocks, moment)?;
        self.add_places(request, <[PathBuf]>::to_vec, moment)
    }

    /// Frees a block that the caller adopts in the same change: it is no other holder's in between, and need not rest.
    fn vacate(&mut self, id: LeaseId, moment: &Moment) -> Result<(), LedgerError> {
        if self.allocator.state(id) != Some(State::Draining) {
            self.set_state(id, State::Draining, moment)?;
        }
        self.set_state(id, State::Quarantined { until: moment.now }, moment)?;
        self.free(id, moment)
    }
}

fn overlap(row: &LeaseRow, blocks: Blocks) -> bool {
    row.uids.overlaps(blocks.uids) || row.gids.overlaps(blocks.gids)
}

/// Whether all of the lease's IDs are among these: none is freed that is not adopted.
fn is_within(row: &LeaseRow, blocks: Blocks) -> bool {
    blocks.uids.span().covers(row.uids.span()) && blocks.gids.span().covers(row.gids.span())
}

fn is_over(row: &LeaseRow, gone: &BTreeSet<Holder>) -> bool {
    match row.state() {
        Some(State::Leased) => !row.shared && row.holder.as_ref().is_some_and(|holder| gone.contains(holder)),
        _ => true,
    }
}
