//! Volumes given a container's label, where the caller asks for it.

use std::path::Path;

use cri::ContainerConfig;
use tracing::{Span, info};

use crate::error::Result;
use crate::id::Id;

/// Relabels what the caller mounts and wants relabelled; `label` is that of the container's files. A container without
/// one is not confined, and reaches files of any label.
pub(super) fn volumes(pod: &Span, id: &Id, config: &ContainerConfig, label: Option<&str>) -> Result<()> {
    let Some(label) = label else { return Ok(()) };
    for mount in config.mounts.iter().filter(|mount| mount.selinux_relabel && mount.image.is_none()) {
        let path = Path::new(&mount.host_path);
        match kernel::relabel(path, label)? {
            Some(done) if done.changed > 0 => {
                let (changed, path) = (done.changed, path.display());
                info!(parent: pod, container = %id, changed, "container {id}: {changed} files of {path} have label {label} now");
            }
            Some(_) => {}
            // The filesystem was mounted with a context, or does not support labels.
            None => {
                info!(parent: pod, container = %id, "container {id}: {} keeps no labels of files", path.display())
            }
        }
    }
    Ok(())
}
