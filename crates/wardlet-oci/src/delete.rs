//! `delete`: deletes a container, and releases the lease of a sandbox.

use oci_records::{Record, Standing, gone, holder, needs_sweep, sweep};

use crate::error::{Error, Result};
use crate::hand_over;
use crate::isolation::{self, DeleteOrder, Inside};
use crate::lease::Leases;
use crate::site::Site;
use crate::unchanged;

/// Deletes a container: runs the runtime's `delete`, then removes the record and, for a sandbox, releases the lease.
/// Returns the runtime's exit code.
pub(crate) fn delete(site: &Site<'_>, id: &str) -> Result<u8> {
    let record = match site.records.get(&site.root(), id) {
        Ok(Some(record)) => record,
        Ok(None) => return unchanged(site),
        Err(error) => return without_record(site, id, &error.into()),
    };
    if matches!(record.standing, Standing::NotIsolated { .. }) {
        site.records.remove(&record)?;
        return unchanged(site);
    }
    let is_being_made = record.creator.runs();
    let inside = files(site, &record);
    let code = hand_over::code(hand_over::run_runtime(&site.runtime, &site.call.words)?);
    drop(inside);
    // The runtime fails for a container that it does not know; if that container is gone, the record goes all the same.
    // While the container is still being created, its creator may take the lease only now, and needs the record for
    // that; nor did the runtime know of what was created during its call. A record of a later create with this ID
    // stays.
    let is_deleted = |now: &Record| code == 0 && !is_being_made && now.creator == record.creator || gone(now);
    // The container is deleted, whatever happens to its lease: after an error the caller would keep the pod for ever.
    if let Err(error) = take_away(site, &record, is_deleted) {
        site.log.decision(&format!("container {id} is deleted, and its lease is not released yet: {error}"));
    }
    Ok(code)
}

/// Deletes a container whose record cannot be read. The holder of its lease follows from the root and the container ID.
fn without_record(site: &Site<'_>, id: &str, error: &Error) -> Result<u8> {
    site.log.decision(&format!("container {id} is deleted without its record: {error}"));
    let code = hand_over::code(hand_over::run_runtime(&site.runtime, &site.call.words)?);
    if code == 0 {
        let leases = Leases::open(&site.config)?;
        // If another delete was faster, a later create of this ID may have written a record of its own by now.
        if site.records.get(&site.root(), id).is_err() {
            leases.release(&holder(&site.root(), id)?)?;
            site.records.remove_unreadable(&site.root(), id)?;
        }
    }
    Ok(code)
}

/// Prepares the files that the runtime needs to delete the container. Without them it still stops the container, and
/// reports what is missing.
fn files(site: &Site<'_>, record: &Record) -> Option<Inside> {
    if !site.traits().ok()?.kind.opens_files_at_start() {
        return None;
    }
    let spec = crate::spec::parse(&crate::spec::read(&record.config).ok()?).ok()?;
    let stage = site.settings().run_dir.join("stage");
    let order = DeleteOrder { bundle: &record.bundle, spec: &spec, stage: &stage };
    isolation::prepare_delete(&order).ok().flatten()
}

/// Removes the record of a deleted container, and releases the lease if it is a sandbox. `is_deleted` decides on the
/// record that exists by then. Then sweeps, if a crash has left leases.
fn take_away(site: &Site<'_>, record: &Record, is_deleted: impl Fn(&Record) -> bool) -> Result<()> {
    let Some(now) = site.records.get(&record.root, &record.container)?.filter(&is_deleted) else {
        return Ok(());
    };
    if !now.is_sandbox() {
        return Ok(site.records.remove(&now)?);
    }
    let leases = Leases::open(&site.config)?;
    let is_released = leases.end(&site.records, &now, is_deleted)?;
    if let (true, Standing::Isolated { holder, .. }) = (is_released, &now.standing) {
        site.log.decision(&format!("pod {}: the lease of {holder} is released", now.pod));
    }
    // Other processes can open the ledger while this one searches for leases that a crash has left.
    drop(leases);
    if needs_sweep(&site.records)? {
        let leases = Leases::open(&site.config)?;
        sweep(&site.records, |holder| leases.release(holder))?;
    }
    Ok(())
}
