//! What is kept in a container's directory.

use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use container::{Engine, Job};
use durable::{AtomicFile, Lifetime};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const FILTER: &str = "seccomp.bpf";
pub(crate) const STARTED: &str = "started.json";
pub(crate) const JOB: &str = "job.json";
const LOCK: &str = "run.lock";
/// A profile of system calls may be long, and nothing else is.
const LARGEST: u64 = 8 << 20;

/// The job that is recorded in a container's directory.
pub(crate) fn job(dir: &Path) -> Result<Job, Failure> {
    let path = dir.join(JOB);
    let job: Job = durable::parse_record(&read(&path)?, &path)?;
    if !job.run_dir.is_absolute() {
        return Err(Failure::of(format!("{}: runDir must be an absolute path", path.display())));
    }
    if let Engine::Oci { path: engine, .. } = &job.engine
        && !engine.is_absolute()
    {
        return Err(Failure::of(format!("{}: the engine must be an absolute path", path.display())));
    }
    Ok(job)
}

pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let bytes = read(path)?;
    serde_json::from_slice(&bytes)
        .map_err(|cause| Failure::during(&format!("cannot read {}", path.display()), cause))
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let missing = || Failure::of(format!("cannot read {}: there is no such file", path.display()));
    durable::read(path, LARGEST)?.ok_or_else(missing)
}

/// Writes a file that is whole or not there at all. It means something only while the container runs, so
/// that it need not outlive the machine's running.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    Ok(AtomicFile::at(path).lifetime(Lifetime::Boot).replace(bytes)?)
}

/// Where things are that do not outlive the machine's running.
#[derive(Debug, Clone)]
pub(crate) struct RunDir(pub(crate) PathBuf);

impl RunDir {
    /// The engine's own state, its configuration and its words.
    pub(crate) fn engine(&self) -> PathBuf {
        self.0.join("engine")
    }

    /// Where files are prepared.
    pub(crate) fn stage(&self) -> PathBuf {
        self.0.join("stage")
    }

    /// Makes all of it. The container's root passes through the stage when it is no longer ours; the engine's state is
    /// for the host's root alone.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        make_dir(&self.0, 0o711)?;
        make_dir(&self.stage(), 0o755)?;
        make_dir(&self.engine(), 0o700)
    }
}

/// Whether users of other user namespaces can pass to `path`: the container's root must, to what was made
/// ready for it.
pub(crate) fn passable(path: &Path) -> Result<(), Failure> {
    for dir in path.ancestors() {
        let failed = |cause| Failure::during(&format!("cannot look at {}", dir.display()), cause);
        if fs::metadata(dir).map_err(failed)?.permissions().mode() & 0o001 == 0 {
            return Err(Failure::of(format!("the container's root cannot pass through {}", dir.display()))
                .hinted("give that directory mode 0711"));
        }
    }
    Ok(())
}

fn make_dir(path: &Path, mode: u32) -> Result<(), Failure> {
    let failed = |cause| Failure::during(&format!("cannot make {}", path.display()), cause);
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)
}

/// Held by the process that is about to start a container, and by all processes between it and the container's
/// program, which does not inherit it.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: OwnedFd,
}

/// The lock, if no other process holds it.
pub(crate) fn lock(dir: &Path) -> Result<Option<Lock>, Failure> {
    let path = dir.join(LOCK);
    let Some(guard) = durable::Lock::at(&path).try_acquire()? else { return Ok(None) };
    let file = guard.into_fd(&path)?;
    // Engines that are programs of their own hold it, too.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())
        .map_err(|errno| Failure::during(&format!("cannot lock {}", path.display()), errno))?;
    Ok(Some(Lock { _file: file }))
}

/// Engines use the name as that of a directory.
pub(crate) fn plain(name: &str) -> Result<&str, Failure> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && !name.starts_with('.') && name.bytes().all(known) {
        return Ok(name);
    }
    Err(Failure::of(format!("{name:?} cannot be the name of a container")))
}
