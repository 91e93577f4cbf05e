//! A set of files in a volume, exchanged at once: a reader sees the old set or the new one.
//!
//! ```text
//! VOLUME/..2026_01_31_23_59_59.12345678900/…   the files and their directories
//! VOLUME/..data      -> ..2026_01_31_23_59_59.12345678900
//! VOLUME/..data_tmp                            only while a swap is under way
//! VOLUME/NAME        -> ..data/NAME            for the first part of every path
//! ```
//!
//! The layout is upstream's, so programs that watch `..data` work. The volume may be writable for the
//! pod's root: nothing in it is trusted, no link in it is followed, and everything is reached from the
//! descriptor of the volume's directory.

mod error;
mod look;
mod make;
mod publish;
mod set;
mod stamp;

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use kernel::{Dir, Owner};
use rustix::fs::{Mode as RawMode, fchmod};
use rustix::io::Errno;

pub use error::Error;

use crate::lock::{self, Wait};
use crate::ownership::change::chown_held;
use crate::ownership::walk::Facts;
use crate::ownership::{FsGroup, Owners};
use crate::payload::Payload;
use crate::record::errno_of;
use look::Current;
use publish::Names;
use set::FileSet;

/// The link to the set that readers see.
pub(crate) const DATA: &str = "..data";
/// The link that takes its place.
pub(crate) const SWAP: &str = "..data_tmp";

/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes one volume.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The volume's directory, on the host.
    pub volume: &'a Dir,
    /// Whose numbers its files' owners are written in.
    pub owners: &'a Owners,
    /// The group that may read it.
    pub fs_group: Option<FsGroup>,
}

/// What there was to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Nothing: every file, owner and mode is as it should be.
    Nothing,
    /// The files were right, but not the names that lead to them, or there were leftovers.
    Repaired,
    /// There is a new set.
    Replaced,
}

impl Writer<'_> {
    /// Makes the volume's files those of the payload. Content, owners and modes are on disk before any
    /// reader sees them. Killed anywhere, readers have one of the two sets, and the next write cleans up.
    pub fn write(&self, payload: &Payload) -> Result<Written, Error> {
        let wanted = FileSet::of(payload, self.owners, self.fs_group).map_err(|(path, unmapped)| {
            Error::Unmapped { volume: self.volume.path().to_owned(), path: path.into(), unmapped }
        })?;
        let volume = &locked(self.volume)?;
        let names = Names::of(volume)?;
        names.refuse_foreign(volume, &wanted)?;
        let root_changed = own_root(volume, &wanted)?;
        let current = Current::of(volume)?;
        let (stamp, replaced) = match current.filter(|current| current.is(&wanted)) {
            Some(current) => (current.stamp, false),
            None => {
                let stamp = make::new_set(volume, &wanted)?;
                publish::swap(volume, &stamp, wanted.links)?;
                (stamp, true)
            }
        };
        let shown = publish::show(volume, &names, &wanted)?;
        if replaced || shown || root_changed {
            // Before the old set goes: what leads to the new one must not be lost with it.
            publish::sync(volume)?;
        }
        let tidied = publish::tidy(volume, &names, &stamp)?;
        Ok(match (replaced, shown || root_changed || tidied) {
            (true, _) => Written::Replaced,
            (false, true) => Written::Repaired,
            (false, false) => Written::Nothing,
        })
    }
}

/// The volume's directory, opened anew and locked until it is dropped. A lock belongs to an opening:
/// two threads with one descriptor would not exclude each other.
fn locked(volume: &Dir) -> Result<Dir, Error> {
    let own = Dir::at(volume.as_fd(), volume.path()).map_err(Error::Dir)?;
    match lock::hold(&own, Wait::UpTo(PATIENCE)) {
        Ok(()) => Ok(own),
        Err(durable::Error::Io { cause, .. }) => Err(step("lock", volume, "")(errno_of(&cause))),
        Err(_) => Err(Error::Busy { volume: volume.path().to_owned(), patience: PATIENCE }),
    }
}

/// The volume's own directory is the container's root's and the group's, with the bits that the group
/// needs.
fn own_root(volume: &Dir, wanted: &FileSet<'_>) -> Result<bool, Error> {
    let facts = Facts::of(volume.as_fd()).map_err(step("look at", volume, ""))?;
    let owner = Owner { uid: facts.uid, gid: facts.gid };
    let mode = facts.mode.with(wanted.root_adds);
    if owner != wanted.links {
        chown_held(volume.as_fd(), wanted.links).map_err(step("give away", volume, ""))?;
    }
    if mode != facts.mode {
        fchmod(volume, RawMode::from_raw_mode(mode.bits())).map_err(step(
            "change the mode of",
            volume,
            "",
        ))?;
    }
    Ok(owner != wanted.links || mode != facts.mode)
}

/// The error of a step on a file of the volume.
fn step(step: &'static str, volume: &Dir, name: &str) -> impl FnOnce(Errno) -> Error + use<> {
    let path = if name.is_empty() { volume.path().to_owned() } else { volume.path().join(Path::new(name)) };
    move |errno| Error::Step { step, path, errno }
}
