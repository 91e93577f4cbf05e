//! A container's `config.json`: the few parts that every create needs, or all of it for a pod with a user namespace.
//!
//! The runtimes parse it without regard to case, and take the last of two equal keys. A configuration that would have
//! another meaning for them than for wardlet is refused.

mod document;
mod fold;
mod guard;
mod partial;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

pub use document::{Document, parse};
pub(crate) use guard::{BLOCK_KEY, SLOT_KEY};
pub use guard::{foreign_reference, weakened};
pub use partial::{PartialSpec, Users, parse_partial};

use crate::error::{Error, Result};

/// The maximum size of a configuration, in bytes. A larger one is an error.
pub const LARGEST: u64 = 32 << 20;

/// Reads the text of a configuration. It is an error if it cannot be read or is larger than [`LARGEST`].
pub fn read(file: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::spec(file, format!("cannot be read: {e}"));
    let open = File::open(file).map_err(failed)?;
    let length = open.metadata().map_err(failed)?.len().min(LARGEST);
    // Allocate for the whole file, so that one read is enough.
    let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or_default().saturating_add(1));
    open.take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).map_or(true, |length| length > LARGEST) {
        return Err(Error::spec(file, format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    Ok(text)
}
