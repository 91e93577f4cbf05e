//! Mounts the edited configuration over the one in the caller's bundle.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use kernel::{DetachedMount, Source, Submounts};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::isolation::Order;
use crate::spec::{foreign_reference, weakened};

/// Mounts `spec` over `config`, where the runtime reads it. This process is in a private mount namespace that ends with
/// the runtime, so that all other processes see the caller's own file.
///
/// It is an error if `spec` allows the container more than the caller's configuration does, or names files of another
/// pod.
pub(super) fn show(spec: &Value, order: &Order, config: &Path) -> Result<()> {
    let foreign = || foreign_reference(&order.spec, spec, &order.ids, &order.stage);
    if let Some(part) = weakened(&order.spec, spec).or_else(foreign) {
        return Err(Error::Weakened { part });
    }
    let file = order.stage.join("config.json");
    let failed = |e: std::io::Error| Error::record("cannot write", &file, e);
    let text = serde_json::to_vec(spec).map_err(|e| Error::record("cannot write", &file, e))?;
    let mut options = OpenOptions::new();
    let mut open = options.write(true).create_new(true).mode(0o600).open(&file).map_err(failed)?;
    open.write_all(&text).map_err(failed)?;
    DetachedMount::clone_of(Source::Path(&file), Submounts::Without)?.attach(config)?;
    Ok(())
}
