//! What a crash left: leases of sandboxes that are gone and that nobody will delete any more.

use ledger::Holder;

use super::alive::{init_of, someone_in};
use super::{Record, Records, Standing};
use crate::error::{Error, Result};

/// What was found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Sandboxes whose leases were given back.
    pub released: Vec<Record>,
    /// Records that nobody can use.
    pub unreadable: Vec<Error>,
}

/// Gives back the leases of sandboxes that neither run nor are being made. What still runs of such a pod
/// keeps its block, and its record: the ledger sees to the one, and calls to come need the other.
pub fn sweep(records: &Records, mut release: impl FnMut(&Holder) -> Result<()>) -> Result<Swept> {
    let (all, unreadable) = records.all()?;
    let mut swept = Swept { released: Vec::new(), unreadable };
    for record in all.iter().filter(|record| is_left(record, &all)) {
        if let (true, Standing::Ward { holder, .. }) = (record.is_sandbox(), &record.standing) {
            release(holder)?;
            swept.released.push(record.clone());
        }
        records.remove(&record.root, &record.container)?;
    }
    Ok(swept)
}

/// Whether a sweep would find something, by a look that others need not wait for.
pub fn something_is_left(records: &Records) -> Result<bool> {
    let (all, _) = records.all()?;
    Ok(all.iter().any(|record| is_left(record, &all)))
}

/// Whether neither it nor its pod's first container is there.
fn is_left(record: &Record, all: &[Record]) -> bool {
    let is_first = |other: &&Record| other.container == record.sandbox && other.root == record.root;
    gone(record) && !all.iter().filter(is_first).any(|first| !gone(first))
}

/// Whether neither the container nor the one who makes it is there.
#[must_use]
pub fn gone(record: &Record) -> bool {
    if record.creator.runs() {
        return false;
    }
    match &record.standing {
        Standing::Ward { ids: Some(ids), .. } => init_of(&record.pid_file, ids).is_none(),
        Standing::Ward { ids: None, .. } => true,
        Standing::NotIsolated { .. } => !someone_in(&record.pid_file),
    }
}
