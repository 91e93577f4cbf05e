//! Removes the remains of a container that does not run: processes, cgroups, the engine's state. Nothing to remove is
//! fine.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cgroups::{Group, Groups, Hierarchies};
use container::{Engine, Job};
use kernel::{Dir, Process};
use rustix::process::{Signal, WaitOptions, wait};

use crate::failure::Failure;
use crate::files::{self, Lock, RunDir};

/// How long what was killed may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(3);

/// What a failed start of our own has left. The caller holds the lock.
pub(crate) fn after_failure(job: &Job) -> Result<(), Failure> {
    end_children()?;
    all(job)
}

/// Removes what any earlier start has left. Returns with the lock, so that no other start begins meanwhile.
pub(crate) fn after_any_start(dir: &Path, job: &Job) -> Result<Lock, Failure> {
    let group = group(job)?;
    let since = Instant::now();
    let lock = loop {
        // The processes that hold the lock are in the cgroup already, or about to enter it, or they end by themselves
        // since their parent is gone.
        group.kill_all()?;
        match files::lock(dir)? {
            Some(lock) => break lock,
            None if since.elapsed() > PATIENCE => {
                return Err(Failure::of(format!("container {} is still being started", job.start.id))
                    .hinted("wait until wardlet-container has ended, or end it"));
            }
            None => sleep(PAUSE),
        }
    };
    all(job)?;
    Ok(lock)
}

fn all(job: &Job) -> Result<(), Failure> {
    let name = files::plain(&job.start.id)?;
    let run_dir = RunDir(job.run_dir.clone());
    let group = group(job)?;
    group.kill_all()?;
    if let Engine::Oci { path, args } = &job.engine
        && run_dir.engine().join(name).exists()
    {
        // What shares our kernel is gone with its group; for others only the engine knows what there is.
        let mut command = Command::new(path);
        command.args(args).arg("--root").arg(run_dir.engine()).args(["delete", "--force", name]);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    // Of a scope, systemd has nothing left after this.
    Groups::find()?.remove(&job.start.cgroup.path)?;
    if !job.run_dir.exists() {
        return Ok(());
    }
    let dir = Dir::open(&job.run_dir)?;
    for part in ["engine", "stage"] {
        dir.remove_tree(OsStr::new(part))?;
    }
    Ok(())
}

pub(crate) fn group(job: &Job) -> Result<Group, Failure> {
    Ok(Group::open(&Hierarchies::find()?, &job.start.cgroup.path)?)
}

/// Ends all children of this process, whatever they are about to do.
fn end_children() -> Result<(), Failure> {
    let since = Instant::now();
    while let Some(children) = children() {
        for child in children {
            // It is not waited for before the next line, so that its number is still its own.
            if let Ok(process) = Process::open(child) {
                process.signal(Signal::KILL)?;
            }
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if since.elapsed() > PATIENCE {
            return Err(Failure::of("a process of the engine does not end"));
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn children() -> Option<Vec<u32>> {
    let own = std::process::id();
    let text = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
    let children: Vec<u32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    if children.is_empty() { None } else { Some(children) }
}
