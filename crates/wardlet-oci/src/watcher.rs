//! The cleanup watcher: a detached process that waits for the end of a create, and of the runtime that the create has
//! executed. If no container runs then, it releases the lease and removes the record, also if the wrapper or the
//! runtime was killed.

use std::ffi::CStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use kernel::Process;
use oci_records::{Creator, Record, gone};

use crate::call::CleanupWatcher;
use crate::error::Result;
use crate::lease::Leases;
use crate::site::{CONFIG_VARIABLE, Site};

/// The program that runs, even if its file was replaced or removed.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The name in the process list. Without it, that is the last part of the path above.
const NAME: &CStr = c"wardlet-oci";

/// Spawns the watcher of this record. It runs as long as this process, which executes the runtime later.
pub(crate) fn spawn_watcher(site: &Site<'_>, record: &Record) -> Result<()> {
    let mut command = Command::new(OWN_PROGRAM);
    let Record { container, creator, .. } = record;
    let watcher = CleanupWatcher { id: container.clone(), pid: creator.pid(), began: creator.began() };
    command.arg0(site.called_as).args(watcher.command_line(&site.call.globals));
    if let Some(config) = std::env::var_os(CONFIG_VARIABLE) {
        // The watcher has another working directory.
        let here = std::env::current_dir().unwrap_or_default();
        command.env(CONFIG_VARIABLE, here.join(Path::new(&config)));
    }
    Ok(kernel::spawn_detached(&mut command)?)
}

/// Waits for the end of the container's creator, and releases the lease if no container runs then.
pub(crate) fn watch(site: &Site<'_>, watcher: &CleanupWatcher) -> Result<u8> {
    let _ = rustix::thread::set_name(NAME);
    let creator = Creator::new(watcher.pid, watcher.began);
    wait(creator)?;
    // A later create of the same name has a watcher of its own.
    let is_left = |now: &Record| now.creator == creator && gone(now);
    if let Some(record) = site.records.get(&site.root(), &watcher.id)?.filter(is_left) {
        give_back(site, &record, is_left);
    }
    Ok(0)
}

/// Waits until the process has ended, whatever program it executes by then.
fn wait(creator: Creator) -> Result<()> {
    // The open process has the creator's PID. It is the creator if the creator runs after it was opened.
    match Process::open(creator.pid()) {
        Ok(held) if creator.runs() => Ok(held.wait()?),
        Err(error) if creator.runs() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Releases a lease and removes its record, if `is_left` holds for the record. After an error the next sweep finds
/// both.
pub(crate) fn give_back(site: &Site<'_>, record: &Record, is_left: impl Fn(&Record) -> bool) {
    let undone = Leases::open(&site.config).and_then(|leases| leases.end(&site.records, record, is_left));
    if let Err(error) = undone {
        site.log.decision(&format!("sandbox {}: the lease is not released yet: {error}", record.sandbox));
    }
}

#[cfg(test)]
mod tests {
    use procfs::ProcessId;

    use super::*;

    #[test]
    fn a_process_is_waited_for_and_the_next_of_its_number_is_not() {
        let own = Creator::own().unwrap();
        wait(Creator::new(own.pid(), own.began() + 1)).unwrap();
        let mut child = std::process::Command::new("sleep").arg("0.2").spawn().unwrap();
        let sleeper = Creator::new(child.id(), ProcessId::of(child.id()).unwrap().start_time);
        wait(sleeper).unwrap();
        assert!(!sleeper.runs());
        child.wait().unwrap();
        wait(sleeper).unwrap();
    }
}
