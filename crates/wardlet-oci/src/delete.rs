//! What is left of a container, taken away; with a sandbox its lease is given back.

use crate::error::{Error, Result};
use crate::hand_over;
use crate::lease::{Leases, Record, Standing, gone, holder, something_is_left, sweep};
use crate::site::Site;
use crate::unchanged;
use crate::ward::{self, DeleteOrder, Inside};

/// Deletes a container.
pub(crate) fn delete(site: &Site<'_>, id: &str) -> Result<u8> {
    let record = match site.records.get(&site.root(), id) {
        Ok(Some(record)) => record,
        Ok(None) => return unchanged(site),
        Err(error) => return without_record(site, id, &error),
    };
    if matches!(record.standing, Standing::NotIsolated { .. }) {
        site.records.remove(&record.root, id)?;
        return unchanged(site);
    }
    let is_being_made = record.creator.runs();
    let inside = files(site, &record);
    let code = hand_over::code(hand_over::run_runtime(&site.runtime.path, &site.call.words)?);
    drop(inside);
    // A runtime that does not know the container fails, and there is nothing left of it all the same.
    // While it is still being made, whoever makes it may take its lease only now: the record has to stay for that. Nor
    // did the runtime know then of what was made meanwhile.
    let Some(record) = site.records.get(&record.root, id)? else { return Ok(code) };
    if code == 0 && !is_being_made || gone(&record) {
        // The container is gone, whatever becomes of its lease: a caller that is told otherwise keeps the pod for ever.
        if let Err(error) = take_away(site, &record) {
            site.log.decision(&format!("{id} is deleted, and its lease is not yet given back: {error}"));
        }
    }
    Ok(code)
}

/// A record that cannot be used does not keep a container from being deleted, nor its lease from being given
/// back: whose that is follows from the names.
fn without_record(site: &Site<'_>, id: &str, error: &Error) -> Result<u8> {
    site.log.decision(&format!("container {id} is deleted without its record: {error}"));
    let code = hand_over::code(hand_over::run_runtime(&site.runtime.path, &site.call.words)?);
    if code == 0 {
        Leases::open(&site.config)?.release(&holder(&site.root(), id)?)?;
        site.records.remove(&site.root(), id)?;
    }
    Ok(code)
}

/// What the runtime looks for among the container's files. Without, it still stops the container, and says
/// what it missed.
fn files(site: &Site<'_>, record: &Record) -> Option<Inside> {
    if !site.traits().ok()?.kind.opens_files_at_start() {
        return None;
    }
    let spec = crate::spec::parse(&crate::spec::read(&record.config).ok()?).ok()?;
    let stage = site.settings().run_dir.join("stage");
    let order = DeleteOrder { bundle: &record.bundle, spec: &spec, stage: &stage };
    ward::prepare_delete(&order).ok().flatten()
}

fn take_away(site: &Site<'_>, record: &Record) -> Result<()> {
    let Standing::Ward { holder, .. } = &record.standing else { return Ok(()) };
    if record.is_sandbox() {
        let leases = Leases::open(&site.config)?;
        leases.release(holder)?;
        site.log.decision(&format!("pod {}: {holder} is given back", record.pod));
        site.records.remove(&record.root, &record.container)?;
        leases.tidy();
        // Nobody waits while it is looked whether a crash has left something.
        drop(leases);
        if something_is_left(&site.records)? {
            let leases = Leases::open(&site.config)?;
            leases.wait()?;
            sweep(&site.records, |holder| leases.release(holder))?;
        }
        return Ok(());
    }
    site.records.remove(&record.root, &record.container)
}
