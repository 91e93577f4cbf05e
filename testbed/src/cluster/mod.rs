//! One testbed: started, used, ended.

pub mod addresses;
pub(crate) mod cgroups;
pub(crate) mod control;
pub(crate) mod daemons;
pub mod handlers;
mod host_ids;
mod inside;
pub mod launch;
pub mod parts;
mod pki;
pub mod record;
pub mod shared;
pub mod supervise;
pub mod sweep;
pub mod testbed;
mod users;

pub(crate) use pki::authority;
pub use pki::{User, Validity};

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::paths::RUN_ROOT;
use crate::{Error, Result, program};

/// Held while testbeds are made or removed, so that two commands do not take each other's for leftovers.
/// It is the run directory itself, which goes with the last testbed: so one may find that what was locked
/// is no longer there, and tries again.
pub(crate) fn lock() -> Result<File> {
    loop {
        match fs::create_dir_all(RUN_ROOT) {
            // Its keeper removes it at its end, perhaps between our two reads.
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists
                    && fs::metadata(RUN_ROOT).map_or(true, |found| found.is_dir()) => {}
            made => made.map_err(Error::file("make", RUN_ROOT))?,
        }
        let Ok(directory) = File::open(RUN_ROOT) else { continue };
        flock(&directory, FlockOperation::LockExclusive)
            .map_err(|error| Error::file("lock", RUN_ROOT)(error.into()))?;
        let locked = directory.metadata().map(|meta| meta.ino()).ok();
        if locked.is_some() && locked == fs::metadata(RUN_ROOT).map(|meta| meta.ino()).ok() {
            return Ok(directory);
        }
    }
}

/// The end of a log, on one line.
pub(crate) fn log_tail(path: &Path) -> String {
    program::tail(&fs::read_to_string(path).unwrap_or_default())
}
