//! The kubelet's `pods/<uid>/userns` records: how they are read, written and entered. `takeover` does so for a whole node.

use std::path::{Path, PathBuf};

use ids::IdBlock;
use ids::allocator::{Blocks, State};
use ids::parse::kubelet::{KubeletRecord, parse_record};

use crate::error::LedgerError;
use crate::holder::Holder;
use crate::lease::{Lease, LeaseRequest};
use crate::lease_table::{LeaseTable, Moment, new_row};
use crate::row::LeaseRow;

/// One of the kubelet's user namespace records (`pods/UID/userns`), as read from disk.
#[derive(Debug)]
pub struct RecordFile {
    /// The file.
    pub path: PathBuf,
    /// The pod's UID: the name of its directory.
    pub pod: String,
    /// The parsed record, or the reason why it cannot be parsed.
    pub record: Result<KubeletRecord, String>,
}

impl RecordFile {
    /// The holder and the block that the record claims. Fails if the record cannot be parsed, or its block cannot be a
    /// lease.
    pub fn claim(&self) -> Result<(Holder, IdBlock), String> {
        let holder = Holder::new(self.pod.clone()).map_err(|e| e.to_string())?;
        let record = self.record.as_ref().map_err(Clone::clone)?;
        Ok((holder, record.block().map_err(|e| e.to_string())?))
    }
}

/// Every record under a kubelet's `pods` directory. An empty file is a pod without a user namespace
/// and is left out.
pub fn read_records(pods: &Path) -> Result<Vec<RecordFile>, LedgerError> {
    let failed = |e| LedgerError::io("read", pods, e);
    let mut records = Vec::new();
    for entry in std::fs::read_dir(pods).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path().join("userns");
        let record = match std::fs::read(&path) {
            Ok(bytes) => match parse_record(&bytes) {
                Ok(None) => continue,
                Ok(Some(record)) => Ok(record),
                Err(e) => Err(e.to_string()),
            },
            Err(e)
                if [std::io::ErrorKind::NotFound, std::io::ErrorKind::NotADirectory].contains(&e.kind()) =>
            {
                continue;
            }
            Err(e) => Err(e.to_string()),
        };
        records.push(RecordFile { path, pod: entry.file_name().to_string_lossy().into_owned(), record });
    }
    records.sort_by(|a, b| a.pod.cmp(&b.pod));
    Ok(records)
}

/// Writes one lease's record under `pods`, making the pod's directory if need be.
pub fn write_record(pods: &Path, holder: &Holder, lease: &Lease) -> Result<PathBuf, String> {
    if lease.uids != lease.gids {
        return Err(format!(
            "its user IDs {} and group IDs {} differ, which a kubelet's record cannot say",
            lease.uids, lease.gids
        ));
    }
    if holder.as_str().contains('/') || holder.as_str().starts_with('.') {
        return Err(format!("{holder} cannot be the UID of a pod"));
    }
    let dir = pods.join(holder.as_str());
    let path = dir.join("userns");
    let json = KubeletRecord::of_block(lease.uids).to_json();
    durable::make_dirs(&dir, 0o750).map_err(|e| e.to_string())?;
    durable::write(&path, json.as_bytes()).map_err(|e| e.to_string())?;
    Ok(path)
}

impl LeaseTable {
    /// Enters blocks that exist already. The same holder with the same blocks: nothing changes.
    pub(crate) fn adopt(
        &mut self,
        request: &LeaseRequest,
        blocks: Blocks,
        moment: &Moment,
    ) -> Result<Lease, LedgerError> {
        self.refuse_member(&request.holder)?;
        let known = self
            .lease_of(&request.holder)
            .filter(|r| r.blocks() == blocks && r.state() == Some(State::Leased));
        if let Some(row) = known {
            return Ok(self.view(row, moment));
        }
        if let Some(row) = self.lease_of(&request.holder) {
            let (has, asked) = (row.uids.length().get(), blocks.uids.length().get());
            if row.blocks() != blocks {
                let source = ids::allocator::Adoption::Overlapping {
                    kind: ids::IdKind::Uid,
                    block: blocks.uids,
                    with: row.id,
                    theirs: row.uids,
                };
                return Err(if has == asked {
                    LedgerError::Adoption { holder: request.holder.clone(), with: row.holder.clone(), source }
                } else {
                    LedgerError::OtherLength { holder: request.holder.clone(), has, asked }
                });
            }
            return self.set_state(row.id, State::Leased, moment);
        }
        let id = ids::allocator::LeaseId(self.head.next);
        let categories = self.pair_for(request)?;
        self.allocator.adopt(id, blocks, State::Leased).map_err(|source| {
            let with = match source {
                ids::allocator::Adoption::Overlapping { with, .. } => self.holder_name(with),
                ids::allocator::Adoption::Known(_) => None,
            };
            LedgerError::Adoption { holder: request.holder.clone(), with, source }
        })?;
        let row = LeaseRow { categories, ..new_row(id, blocks, request, moment) };
        Ok(self.put_new(row, moment))
    }
}
