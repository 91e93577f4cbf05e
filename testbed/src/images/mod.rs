//! Images without any registry to fetch them from: made once, kept in the cache, imported into containerd
//! and served by the testbed's own registry.

mod components;
mod critest;
mod layer;
mod oci;
mod specs;
mod standins;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

pub use components::{ComponentImage, of_component};
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
    match begin(&ingredients.fingerprint()?)? {
        Making::Made(target) => Ok(target),
        Making::New(work) => {
            ingredients.make(work.path())?;
            work.keep()
        }
    }
}

/// A directory of the cache.
enum Making {
    /// It is there and complete.
    Made(PathBuf),
    /// It is to be made.
    New(Work),
}

/// A directory that becomes one of the cache when it is complete. It is removed if it is dropped before.
struct Work {
    dir: tempfile::TempDir,
    target: PathBuf,
    /// Held until then.
    _lock: File,
}

impl Work {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Moves it into place.
    fn keep(self) -> Result<PathBuf> {
        fs::rename(self.dir.path(), &self.target).map_err(Error::file("move into place", &self.target))?;
        Ok(self.target)
    }
}

/// The directory `name` of the cache of images, or a new one in its place.
fn begin(name: &str) -> Result<Making> {
    let home = paths::cache_root().join("images");
    let target = home.join(name);
    fs::create_dir_all(&home).map_err(Error::file("make", &home))?;
    let path = home.join("lock");
    let lock = File::create(&path).map_err(Error::file("open", &path))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| Error::file("lock", &path)(error.into()))?;
    if target.is_dir() {
        return Ok(Making::Made(target));
    }
    let dir = tempfile::tempdir_in(&home).map_err(Error::file("make a directory in", &home))?;
    Ok(Making::New(Work { dir, target, _lock: lock }))
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
