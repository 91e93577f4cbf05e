//! A container's `config.json`: a glance that is cheap enough for every container, and all of it for those
//! whose pod has a user namespace.
//!
//! The runtimes read it with parsers that take keys in any case and the last of two equal ones. What would
//! mean one thing to them and another to us is refused.

mod document;
mod fold;
mod glance;
mod guard;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

pub use document::{Document, parse};
pub use glance::{Glance, Users, glance};
pub(crate) use guard::{BLOCK_KEY, SLOT_KEY};
pub use guard::{astray, weakened};

use crate::error::{Error, Result};

/// More than any runtime is given; a larger one is not looked at.
pub const LARGEST: u64 = 32 << 20;

/// The text of a configuration.
pub fn read(file: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::spec(file, format!("cannot be read: {e}"));
    let open = File::open(file).map_err(failed)?;
    let length = open.metadata().map_err(failed)?.len().min(LARGEST);
    // Room for all of it, so that it is read in one go.
    let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or_default().saturating_add(1));
    open.take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).map_or(true, |length| length > LARGEST) {
        return Err(Error::spec(file, format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    Ok(text)
}
