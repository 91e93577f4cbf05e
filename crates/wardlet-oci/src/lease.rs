//! The leases of pods with a user namespace, in the node's ledger.

use std::path::PathBuf;

use census::HostRoot;
use ids::{BlockLength, IdMapping, IdMappings};
use ledger::{Holder, Lease, LeaseRequest, Ledger, LedgerError, OpenMode, Options, Tenure};
use node::Config;
use oci_records::{Record, Records, Standing};

use crate::error::Result;

/// The node's ledger, opened exclusively: other processes wait until this is dropped.
pub struct Leases {
    ledger: Ledger,
}

impl Leases {
    /// Opens the ledger, and creates it if there is none. Waits until no other process has it open.
    pub fn open(config: &Config) -> Result<Self> {
        Ok(Self { ledger: Ledger::open(options(config)?)? })
    }

    /// Scans the host, then opens the ledger: other processes need not wait for the scan that [`take`](Self::take)
    /// needs.
    pub fn open_to_take(options: Options) -> Result<Self> {
        Ok(Self { ledger: Ledger::open_to_lease(options)? })
    }

    /// Leases a block for the holder, and returns the ID mappings; a holder that has a lease gets the same block again.
    /// The lease is on disk when this returns. It is an error if the pool has no free block.
    pub fn take(
        &self,
        holder: Holder,
        length: Option<BlockLength>,
        places: Vec<PathBuf>,
    ) -> Result<IdMappings> {
        let request =
            LeaseRequest { length, places, tenure: Tenure::UntilReboot, ..LeaseRequest::new(holder) };
        Ok(lines(&self.ledger.lease(request)?))
    }

    /// Adds directories to those in which files may belong to the IDs of a lease.
    pub fn add_places(&self, holder: &Holder, places: &[PathBuf]) -> Result<()> {
        again(|| self.ledger.add_places(holder.clone(), places.to_owned()))
    }

    /// Releases a lease. The ledger does not lease the block again before a census found it vacant and its rest is
    /// over.
    pub fn release(&self, holder: &Holder) -> Result<()> {
        again(|| self.ledger.release(holder.clone()))
    }

    /// Releases the lease of a sandbox and removes its record, if `is_left` holds for the record that exists now.
    /// Returns false, and changes nothing, if it does not.
    ///
    /// The record may be that of a later create with the same container ID, whose lease has the same holder. Such a
    /// create takes its lease under the ledger's lock, which this process holds: the result of `is_left` stays true until
    /// the lease is released.
    pub(crate) fn end(
        &self,
        records: &Records,
        record: &Record,
        is_left: impl FnOnce(&Record) -> bool,
    ) -> Result<bool> {
        let Some(now) = records.get(&record.root, &record.container)?.filter(is_left) else {
            return Ok(false);
        };
        if let Standing::Isolated { holder, .. } = &now.standing {
            self.release(holder)?;
        }
        // A later create may have written its own record since, which does not need the ledger. That record is kept.
        records.remove(&now)?;
        Ok(true)
    }
}

/// Makes a change to the ledger, and repeats it if the ledger was damaged and has been rebuilt.
fn again<T>(change: impl Fn() -> std::result::Result<T, LedgerError>) -> Result<()> {
    match change() {
        Err(LedgerError::Rebuilt { .. }) => change()?,
        changed => changed?,
    };
    Ok(())
}

/// The ID mappings of a user namespace that has the IDs of a lease.
fn lines(lease: &Lease) -> IdMappings {
    let line = |block| vec![IdMapping::of_block(block)];
    IdMappings { uids: line(lease.uids), gids: line(lease.gids) }
}

/// The options to open the ledger with on a node with this configuration. Nothing is opened yet. It is an error if the
/// configuration gives no pool.
pub fn options(config: &Config) -> Result<Options> {
    let host = HostRoot::new("/");
    let pool = node::pool::for_wrapper(config, &host)?;
    let parameters = node::ledger::LedgerParameters { state_dir: &config.settings.wrapper.state_dir, pool };
    let options = node::ledger::options(config, &host, parameters)?;
    Ok(Options { mode: OpenMode::Exclusive, ..options })
}
