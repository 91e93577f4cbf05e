//! Taking a kubelet's node over in place, and giving it back: all of its records at once.

use std::path::{Path, PathBuf};

use ids::IdBlock;
use ids::allocator::{Blocks, State};

use crate::error::LedgerError;
use crate::holder::Holder;
use crate::kubelet::{RecordFile, read_records, write_record};
use crate::lease::{Lease, LeaseRequest};
use crate::lease_table::LeaseTable;
use crate::ledger::Ledger;

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

/// What an import of one record would come to.
#[derive(Debug)]
pub struct Rehearsed {
    /// The file.
    pub path: PathBuf,
    /// The pod's UID.
    pub pod: String,
    /// The block that it would get, or why it would get none.
    pub outcome: Result<IdBlock, String>,
}

/// What an import of these records would come to beside these leases, without a ledger being made or changed.
#[must_use]
pub fn rehearse_import(leases: &[Lease], files: Vec<RecordFile>) -> Vec<Rehearsed> {
    let held = leases.iter().flat_map(|l| [(l.holder.clone(), l.uids), (l.holder.clone(), l.gids)]);
    let mut held: Vec<(Option<Holder>, IdBlock)> = held.collect();
    let mut rehearsed = Vec::new();
    for file in files {
        let outcome = file.claim().and_then(|(holder, block)| {
            let rival = held.iter().find(|(other, theirs)| {
                if other.as_ref() == Some(&holder) { *theirs != block } else { theirs.overlaps(block) }
            });
            if let Some((other, theirs)) = rival {
                let other = other.as_ref().map_or("no holder", Holder::as_str);
                return Err(format!("{block} is in the way of {theirs}, held by {other}"));
            }
            held.push((Some(holder), block));
            Ok(block)
        });
        rehearsed.push(Rehearsed { path: file.path, pod: file.pod, outcome });
    }
    rehearsed
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
