//! Releases leases that a crash left: those of sandboxes that are gone and that no caller will delete any more.

use ledger::Holder;

use crate::{Error, Record, Records, Result, Standing, gone};

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// Records of the sandboxes whose leases were released.
    pub released: Vec<Record>,
    /// Errors of the records that cannot be read. Their leases are kept.
    pub unreadable: Vec<Error>,
}

/// Releases the leases of sandboxes that neither run nor are being created, and removes their records. A container of
/// such a pod that still runs keeps its record, which later calls need, and the ledger keeps the block as long as its
/// IDs are in use. A record that changes during the sweep is left to the next one.
///
/// `release` releases one lease; its first error ends the sweep. It is also an error if the records cannot be listed or
/// removed.
///
/// The caller holds the ledger's lock from before this call until it returns ([`ledger::OpenMode::Exclusive`]): a
/// create takes its lease and writes the ID mappings into its record under that lock, and so a record that is gone here
/// has no lease of a later create under its holder's name.
pub fn sweep<E: From<Error>>(
    records: &Records,
    mut release: impl FnMut(&Holder) -> std::result::Result<(), E>,
) -> std::result::Result<Swept, E> {
    let (all, unreadable) = records.all()?;
    let mut swept = Swept { released: Vec::new(), unreadable };
    for record in all.iter().filter(|record| is_left(record, &all)) {
        // The creator has ended by now, but it may have changed the record after the list was read. This read is final.
        if records.get(&record.root, &record.container)?.as_ref() != Some(record) {
            continue;
        }
        if let (true, Standing::Isolated { holder, .. }) = (record.is_sandbox(), &record.standing) {
            release(holder)?;
            swept.released.push(record.clone());
        }
        records.remove(record)?;
    }
    for path in records.unfinished()? {
        // Its writer has ended, and a concurrent sweep may have removed it.
        let _ = std::fs::remove_file(path);
    }
    Ok(swept)
}

/// Whether a sweep would find something. This takes no lock, so that callers need not open the ledger to find out.
pub fn needs_sweep(records: &Records) -> Result<bool> {
    let (all, _) = records.all()?;
    Ok(all.iter().any(|record| is_left(record, &all)) || !records.unfinished()?.is_empty())
}

/// Whether neither the container nor the sandbox of its pod is there.
fn is_left(record: &Record, all: &[Record]) -> bool {
    let is_first = |other: &&Record| other.container == record.sandbox && other.root == record.root;
    gone(record) && !all.iter().filter(is_first).any(|first| !gone(first))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::Creator;

    /// The record of a sandbox whose creator ended before it had a lease.
    fn left_behind(id: &str) -> Record {
        let record = serde_json::json!({
            "version": 1, "root": "/r", "container": id, "sandbox": id,
            "pod": {"namespace": "n", "name": "p", "uid": "u"},
            "bundle": "/b", "config": "/b/config.json", "pidFile": "/nowhere/pid",
            "creator": Creator::new(u32::MAX, 1), "standing": {"ward": {"holder": id, "ids": null}},
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_record_that_its_creator_wrote_to_after_it_was_read_is_left_to_the_next_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::new(dir.path());
        for id in ["a", "b"] {
            assert!(records.claim(&left_behind(id)).unwrap());
        }
        let released = RefCell::new(Vec::new());
        let release = |holder: &Holder| {
            released.borrow_mut().push(holder.to_string());
            // During the first release, the other sandbox's record changes.
            for id in ["a", "b"].into_iter().filter(|id| *id != holder.as_str()) {
                records.update(&Record { bundle: "/changed".into(), ..left_behind(id) })?;
            }
            Ok(())
        };
        let swept = sweep::<Error>(&records, release).unwrap();
        assert_eq!((swept.released.len(), released.borrow().len()), (1, 1));
        assert_eq!(records.all().unwrap().0.len(), 1);
        sweep::<Error>(&records, |_| Ok(())).unwrap();
        assert_eq!(records.all().unwrap().0.len(), 0);
    }

    #[test]
    fn files_of_a_writer_that_has_ended_are_removed_and_those_of_a_running_one_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (records, root) = (Records::new(dir.path()), dir.path().join("containers/root"));
        std::fs::create_dir_all(&root).unwrap();
        let own = format!("a.{}", std::process::id());
        for name in [own.as_str(), "a.4294967295", "a.pid", "b"] {
            std::fs::write(root.join(name), "{").unwrap();
        }
        assert!(needs_sweep(&records).unwrap());
        sweep::<Error>(&records, |_| Ok(())).unwrap();
        assert!(!needs_sweep(&records).unwrap());
        let mut left: Vec<_> = std::fs::read_dir(&root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        assert_eq!(left, [own.as_str(), "a.pid", "b"]);
    }
}
