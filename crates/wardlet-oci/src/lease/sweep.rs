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
    for path in records.unfinished()? {
        // Nobody else writes to it; who else sweeps has removed it.
        let _ = std::fs::remove_file(path);
    }
    Ok(swept)
}

/// Whether a sweep would find something, by a look that others need not wait for.
pub fn something_is_left(records: &Records) -> Result<bool> {
    let (all, _) = records.all()?;
    Ok(all.iter().any(|record| is_left(record, &all)) || !records.unfinished()?.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_who_is_gone_was_writing_is_swept_up_and_what_another_writes_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (records, root) = (Records::new(dir.path()), dir.path().join("containers/root"));
        std::fs::create_dir_all(&root).unwrap();
        let own = format!("a.{}", std::process::id());
        for name in [own.as_str(), "a.4294967295", "a.pid", "b"] {
            std::fs::write(root.join(name), "{").unwrap();
        }
        assert!(something_is_left(&records).unwrap());
        sweep(&records, |_| Ok(())).unwrap();
        assert!(!something_is_left(&records).unwrap());
        let mut left: Vec<_> = std::fs::read_dir(&root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        assert_eq!(left, [own.as_str(), "a.pid", "b"]);
    }
}
