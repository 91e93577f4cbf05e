//! Finds the processes of pods' monitors by their command lines: a monitor, and a process that is about to exec one. The
//! monitors' records are not enough: a process that was killed before it wrote one has left nothing else.
//!
//! The first process of a shared PID namespace shows nothing of where it belongs, since all in the pod see it.
//! It outlives its monitor only once that has written it down, and is found by that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kernel::{NamespaceKind, Process};
use monitor::MonitorRecord;
use procfs::{Proc, Task};
use rustix::process::Signal;

use crate::error::{Error, Result};

const PROGRAM: &str = "wardlet-monitor";
/// How the kernel crate calls the first process of a shared PID namespace.
const INIT: &[u8] = b"wardlet-init\n";
/// How long what was killed may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Ends all of them whose pod's directory is wanted. One that starts another is found with it.
pub(crate) fn end_all(wanted: impl Fn(&Path) -> bool) -> Result<()> {
    end_but(wanted, |_| false)
}

/// Ends the first process of a directory's PID namespace, with all in it.
pub(crate) fn end_init(dir: &Path) -> Result<()> {
    let Some(id) = MonitorRecord::read(dir)?.and_then(|record| record.pid_namespace) else { return Ok(()) };
    let Ok(process) = Process::open(id.pid) else { return Ok(()) };
    if id.is_same() && is_init(&process) {
        process.signal(Signal::KILL)?;
    }
    Ok(())
}

/// Whether this process, which is held, is the first one of a shared PID namespace.
pub(crate) fn is_init(process: &Process) -> bool {
    task(process).is_some_and(|task| task.read("comm").is_ok_and(|name| name == INIT))
}

/// The files of a process that is held, if it still runs once they are held too: its number was not used anew before.
fn task(process: &Process) -> Option<Task> {
    let task = Task::open(u32::try_from(process.pid()).ok()?).ok()?;
    process.is_running().is_ok_and(|runs| runs).then_some(task)
}

/// Ends all of one directory but the first process of its PID namespace, in which containers run.
pub(crate) fn end_half_made(dir: &Path) -> Result<()> {
    let kept = MonitorRecord::read(dir)?.and_then(|record| record.pid_namespace);
    let is_kept = |process: &Process| {
        kept.is_some_and(|kept| i64::from(process.pid()) == i64::from(kept.pid) && kept.is_same())
    };
    end_but(|found| found == dir, is_kept)
}

fn end_but(wanted: impl Fn(&Path) -> bool, is_kept: impl Fn(&Process) -> bool) -> Result<()> {
    let since = Instant::now();
    loop {
        let mut found = all()?;
        found.retain(|(process, dir)| wanted(dir) && !is_kept(process));
        if found.is_empty() {
            return Ok(());
        }
        for (process, _) in &found {
            process.signal(Signal::KILL)?;
        }
        if since.elapsed() > PATIENCE {
            return Err(Error::Step {
                step: "kill the remaining processes of a pod's monitor".to_owned(),
                cause: format!("{} of them are still running after SIGKILL", found.len()),
                hint: None,
            });
        }
        sleep(PAUSE);
    }
}

/// Whether this process, which is held, is one of this directory's.
pub(crate) fn is_of(process: &Process, dir: &Path) -> bool {
    own_mounts().is_ok_and(|own| dir_of(process, own).is_some_and(|found| found == dir))
}

fn all() -> Result<Vec<(Process, PathBuf)>> {
    let own = own_mounts()?;
    let mut found = vec![];
    for pid in Proc::own()?.pids()? {
        // It has ended just now.
        let Ok(process) = Process::open(pid) else { continue };
        found.extend(dir_of(&process, own).map(|dir| (process, dir)));
    }
    Ok(found)
}

fn own_mounts() -> Result<kernel::NamespaceId> {
    Ok(Process::own()?.namespace(NamespaceKind::Mnt)?.id())
}

/// The pod's directory that it was started for. Where others see other mounts, the same path is another
/// directory: a runtime inside of a pod has monitors, too.
fn dir_of(process: &Process, own: kernel::NamespaceId) -> Option<PathBuf> {
    let arguments = task(process)?.arguments().ok()?;
    let mut arguments = arguments.iter().map(|argument| Path::new(OsStr::from_bytes(argument)));
    let (program, dir) = (arguments.next()?, arguments.next()?);
    if program.file_name()? != PROGRAM || !dir.is_absolute() {
        return None;
    }
    (process.namespace(NamespaceKind::Mnt).ok()?.id() == own).then(|| dir.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_are_nobodys_monitor() {
        let own = Process::own().unwrap();
        assert!(!is_of(&own, Path::new("/")));
        assert_eq!(dir_of(&own, own_mounts().unwrap()), None);
    }
}
