use std::path::Path;

use kernel::{Attributes, Kernel, Live, PrivateMountNamespace, Propagation, Source, Submounts, Target};
use serde_json::Value;

use super::make::make_dirs;
use super::{Inside, Result, Rootfs, json};

/// A container that is to be deleted.
#[derive(Debug, Clone, Copy)]
pub struct DeleteOrder<'a> {
    /// The caller's bundle.
    pub bundle: &'a Path,
    /// The caller's configuration.
    pub spec: &'a Value,
    /// The directory that its files were made ready in.
    pub stage: &'a Path,
}

/// Makes this process one in which the runtime finds what it has put into a container's `/` itself, at the
/// path that it knows: gVisor keeps there what the container writes, and fails to delete a container without.
/// `None` where nothing is left to be found.
pub fn prepare_delete(order: &DeleteOrder<'_>) -> Result<Option<Inside>> {
    let root = order.spec.get("root").unwrap_or(&Value::Null);
    if !order.bundle.join(json::text(root, "path")?).exists() {
        return Ok(None);
    }
    let Some(upper) = Rootfs::find(order.bundle, order.spec)?.changes() else { return Ok(None) };
    let point = order.stage.join("rootfs");
    make_dirs(&point)?;
    let namespace = PrivateMountNamespace::enter()?;
    let kernel = Live::new();
    let mut clone = kernel.clone_mount(Source::Path(&upper), Submounts::Without)?;
    let private = Attributes { propagation: Some(Propagation::Private), ..Attributes::default() };
    kernel.set_attributes(&mut clone, &private)?;
    kernel.attach(clone, Target::Path(&point))?;
    Ok(Some(Inside::new(namespace, None)))
}
