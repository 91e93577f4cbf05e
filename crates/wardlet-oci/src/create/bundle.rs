//! The caller's bundle, with the edited configuration in its place.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use kernel::{DetachedMount, Source, Submounts};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::spec::{astray, weakened};
use crate::ward::Order;

/// Shows `spec` where the runtime will look for it. We are in a mount namespace that ends with the runtime,
/// so that the caller's own file stays what it is for everybody else.
///
/// Nothing is shown that allows the container more than its caller did, or that leads to another pod's.
pub(super) fn show(spec: &Value, order: &Order, config: &Path) -> Result<()> {
    let astray = || astray(&order.spec, spec, (&order.ids, &order.stage));
    if let Some(part) = weakened(&order.spec, spec).or_else(astray) {
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
