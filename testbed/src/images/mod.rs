//! Images without any registry to fetch them from: made once, kept in the cache, imported into containerd
//! and served by the testbed's own registry.

mod critest;
mod layer;
mod oci;
mod standins;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

pub use standins::{AGNHOST, BUSYBOX, PAUSE, REGISTRY_ONLY};

use crate::cluster::daemons::ctr;
use crate::cluster::parts::{Containerd, Part};
use crate::cluster::record::Record;
use crate::{Error, Result, own, paths, program};
use standins::Ingredients;

/// The archives and the registry's store, made if they are not there yet.
///
/// # Errors
/// If an ingredient is missing.
pub fn made() -> Result<PathBuf> {
    let ingredients = Ingredients::find()?;
    let home = paths::cache_root().join("images");
    let target = home.join(ingredients.fingerprint()?);
    fs::create_dir_all(&home).map_err(Error::file("make", &home))?;
    let path = home.join("lock");
    let lock = File::create(&path).map_err(Error::file("open", &path))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| Error::file("lock", &path)(error.into()))?;
    if target.is_dir() {
        return Ok(target);
    }
    let work = tempfile::tempdir_in(&home).map_err(Error::file("make a directory in", &home))?;
    ingredients.make(work.path())?;
    fs::rename(work.path(), &target).map_err(Error::file("move into place", &target))?;
    Ok(target)
}

/// Before the testbed starts: what its registry will serve. A copy, for a test may push and delete.
pub(crate) fn prepare(record: &Record) -> Result<()> {
    if record.parts.has(Part::Containerd) || record.parts.has(Part::Registry) {
        let made = made()?;
        if record.parts.has(Part::Registry) {
            let store = record.places.data.join("registry");
            program::run(
                Command::new("cp").args(["-r", "--reflink=auto"]).arg(made.join("registry")).arg(store),
            )?;
        }
    }
    Ok(())
}

/// Imports all archives into the testbed's containerd, unless it was started again and still has them.
pub(crate) fn import(record: &Record) -> Result<()> {
    if record.containerd == Containerd::Wardlet {
        return import_into_wardlet(record);
    }
    if program::text(ctr(record).args(["images", "ls", "-q"]))?.lines().any(|name| name == PAUSE) {
        return Ok(());
    }
    let archives = made()?.join("archives");
    let entries = fs::read_dir(&archives).map_err(Error::file("read", &archives))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // The pause last: its presence says that all are there.
    paths.sort_by_key(|path| path.ends_with("pause.tar"));
    for path in paths {
        program::run(ctr(record).args(["images", "import", "--all-platforms"]).arg(path))?;
    }
    Ok(())
}

/// The store is shared by all processes: the server sees what the command imports.
fn import_into_wardlet(record: &Record) -> Result<()> {
    let archives = made()?.join("archives");
    let entries = fs::read_dir(&archives).map_err(Error::file("read", &archives))?;
    for entry in entries.flatten() {
        let mut command = Command::new(own::program("wardlet")?);
        command.args(["image", "import"]).arg(entry.path());
        program::run(command.arg("--state-dir").arg(record.places.data.join("wardlet")))?;
    }
    Ok(())
}
