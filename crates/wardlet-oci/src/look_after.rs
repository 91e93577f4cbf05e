//! What becomes of a pod's lease when the runtime that was to use it has ended: whatever leaves no pod has it given back,
//! also if the wrapper or the runtime was killed.

use std::ffi::{CStr, OsString};
use std::path::Path;

use crate::call::{self, LookAfter};
use crate::error::Result;
use crate::lease::{Creator, Leases, Record, Standing, gone};
use crate::site::{CONFIG_VARIABLE, Site};
use crate::ward;

/// How it is listed.
const NAME: &CStr = c"wardlet-oci";

/// Leaves somebody behind who comes back to this record when this process, or the runtime that it becomes, has ended.
pub(crate) fn leave_behind(site: &Site<'_>, record: &Record) -> Result<()> {
    let mut words = vec![site.called_as.to_owned()];
    words.extend(call::words_to_look_after(
        &site.call.globals,
        (record.creator.pid(), record.creator.began()),
        &record.container,
    ));
    // Whoever is left behind is in another directory.
    let here = std::env::current_dir().unwrap_or_default();
    let absolute = |(name, value): (OsString, OsString)| {
        let value = if name == CONFIG_VARIABLE { here.join(Path::new(&value)).into() } else { value };
        (name, value)
    };
    let environment: Vec<_> = std::env::vars_os().map(absolute).collect();
    Ok(kernel::afterwards(&words, &environment).map_err(ward::Error::from)?)
}

/// Who made the container has ended. Gives back what leaves no pod.
pub(crate) fn look_after(site: &Site<'_>, left: &LookAfter) -> Result<u8> {
    // The kernel calls it by the link that it was run through.
    let _ = rustix::thread::set_name(NAME);
    let creator = Creator::new(left.pid, left.began);
    // Whoever took its place by now sees to it.
    let found = || {
        let found = site.records.get(&site.root(), &left.id).ok().flatten();
        found.filter(|now| now.creator == creator && gone(now))
    };
    if let Some(record) = found() {
        // Others wait for the ledger.
        kernel::as_others();
        give_back(site, &record, || found().is_some());
    }
    Ok(0)
}

/// Takes back a lease and its record, if that is still so when it is our turn. What cannot be taken back now is found by
/// the next sweep.
pub(crate) fn give_back(site: &Site<'_>, record: &Record, is_left: impl Fn() -> bool) {
    let Standing::Ward { holder, .. } = &record.standing else { return };
    let undone = Leases::open(&site.config).and_then(|leases| {
        leases.wait()?;
        if !is_left() {
            return Ok(());
        }
        leases.release(holder)?;
        // The caller may try again under the same name, and does not need the ledger to begin.
        if is_left() {
            site.records.remove(&record.root, &record.container)?;
        }
        leases.tidy();
        Ok(())
    });
    if let Err(error) = undone {
        site.log.decision(&format!("sandbox {} is not yet given back: {error}", record.sandbox));
    }
}
