//! What is left of a container, taken away; with a sandbox its lease is given back.

use crate::error::Result;
use crate::hand_over;
use crate::lease::{Leases, Record, Standing, gone, sweep};
use crate::site::Site;
use crate::unchanged;

/// Deletes a container.
pub(crate) fn delete(site: &Site<'_>, id: &str) -> Result<u8> {
    let Some(record) = site.records.get(&site.root(), id)? else { return unchanged(site) };
    if matches!(record.standing, Standing::NotIsolated { .. }) {
        site.records.remove(&record.root, id)?;
        return unchanged(site);
    }
    let code = hand_over::code(hand_over::run_runtime(&site.runtime.path, &site.call.words)?);
    // A runtime that does not know the container fails, and there is nothing left of it all the same.
    if code == 0 || gone(&record) {
        take_away(site, &record)?;
    }
    Ok(code)
}

fn take_away(site: &Site<'_>, record: &Record) -> Result<()> {
    let Standing::Ward { holder, .. } = &record.standing else { return Ok(()) };
    if record.is_sandbox() {
        let leases = Leases::open(&site.config)?;
        leases.release(holder.clone())?;
        site.log.decision(&format!("pod {}: {holder} is given back", record.pod));
        site.records.remove(&record.root, &record.container)?;
        sweep(&site.records, &leases)?;
        return Ok(());
    }
    site.records.remove(&record.root, &record.container)
}
