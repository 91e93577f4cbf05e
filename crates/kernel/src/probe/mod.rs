//! What this kernel and this filesystem can do, by trying it: nothing is guessed from a version, and
//! nothing that is tried outlives the trial.

mod answer;
mod limits;
mod mounts;
mod overlay;
mod users;

pub use answer::{Answer, Unsupported};
pub use limits::{Limits, Stopped};
pub use mounts::{context_mounts, idmap, idmap_tree, open_tree_attr, recursive_read_only, tmpfs_idmap};
pub use overlay::overlay_idmap;
pub use users::{charged_user_namespaces, user_namespaces};

use ids::IdMapping;

use crate::{Error, IdMaps, Result};

/// The overflow ID: no lease contains it, so that a trial touches no lease.
const NOBODY: u32 = 65_534;

/// Root inside is the overflow ID outside.
fn trial_maps() -> Result<IdMaps> {
    let line = IdMapping::new(0, NOBODY.into(), 1)
        .map_err(|error| Error::Trial { step: "make a map", found: error.to_string() })?;
    Ok(IdMaps::new(&[line], &[line]))
}

/// A trial that went through and yet did not do what it should.
fn unlike(step: &'static str, found: &(impl ToString + ?Sized)) -> Error {
    Error::Trial { step, found: found.to_string() }
}
