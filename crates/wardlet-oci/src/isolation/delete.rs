use std::path::Path;

use kernel::{Attributes, Kernel, Live, PrivateMountNamespace, Propagation, Source, Submounts, Target};
use serde_json::Value;

use super::make::make_dirs;
use super::{Inside, Result, Rootfs, json};

/// One container to delete.
#[derive(Debug, Clone, Copy)]
pub struct DeleteOrder<'a> {
    /// The OCI bundle.
    pub bundle: &'a Path,
    /// The configuration, as the caller wrote it.
    pub spec: &'a Value,
    /// The staging directory.
    pub stage: &'a Path,
}

/// Puts this process into a mount namespace in which the runtime finds the upper directory at the path of the root
/// filesystem that it knows: gVisor stores a container's writes there, and fails to delete the container without that
/// file. `None` if the root filesystem does not exist any more or is not an overlay.
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
