//! Our own programs, as built: what the testbed runs where it runs us.

use std::path::PathBuf;

use crate::{Error, Result};

/// The program of this name: where `WARDLET_BIN` says, else beside the program that asks (tests lie one
/// directory deeper).
///
/// # Errors
/// If it has not been built.
pub fn program(name: &str) -> Result<PathBuf> {
    let named = std::env::var_os("WARDLET_BIN").map(PathBuf::from);
    let here = std::env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from));
    let above = here.as_ref().and_then(|dir| dir.parent().map(PathBuf::from));
    let found =
        [named, here, above].into_iter().flatten().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| Error::CannotBeHad {
        what: name.to_owned(),
        cause: "it has not been built: cargo build --workspace".into(),
    })
}
