//! What a crash left: leases of sandboxes that are gone and that nobody will delete any more.

use super::alive::{init_of, someone_in};
use super::{Leases, Record, Records, Standing};
use crate::error::{Error, Result};

/// What was found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Sandboxes whose leases were given back.
    pub released: Vec<Record>,
    /// Records that nobody can use.
    pub unreadable: Vec<Error>,
}

/// Gives back the leases of sandboxes that neither run nor are being made, and removes the records of
/// their containers. What still runs of such a pod keeps its block: the ledger sees to that itself.
pub fn sweep(records: &Records, leases: &Leases) -> Result<Swept> {
    let (all, unreadable) = records.all()?;
    let mut swept = Swept { released: Vec::new(), unreadable };
    for record in all.iter().filter(|record| record.is_sandbox() && gone(record)) {
        if let Standing::Ward { holder, .. } = &record.standing {
            leases.release(holder.clone())?;
        }
        for of_pod in all.iter().filter(|other| other.sandbox == record.sandbox && other.root == record.root)
        {
            records.remove(&of_pod.root, &of_pod.container)?;
        }
        swept.released.push(record.clone());
    }
    Ok(swept)
}

/// Whether neither the container nor the one who makes it is there.
pub(crate) fn gone(record: &Record) -> bool {
    if record.creator.runs() {
        return false;
    }
    match &record.standing {
        Standing::Ward { ids: Some(ids), .. } => init_of(&record.pid_file, ids).is_none(),
        Standing::Ward { ids: None, .. } => true,
        Standing::NotIsolated { .. } => !someone_in(&record.pid_file),
    }
}
