//! Volumes given a container's label, where the caller asks for it.

use std::path::Path;

use wire::cri::ContainerConfig;

use crate::error::Result;
use crate::id::Id;
use crate::node::Node;

/// Relabels what the caller mounts and wants relabelled; `label` is that of the container's files. A container without
/// one is not confined, and reaches files of any label.
pub(super) fn volumes(node: &Node, id: &Id, config: &ContainerConfig, label: Option<&str>) -> Result<()> {
    let Some(label) = label else { return Ok(()) };
    for mount in config.mounts.iter().filter(|mount| mount.selinux_relabel && mount.image.is_none()) {
        let path = Path::new(&mount.host_path);
        match kernel::relabel(path, label)? {
            Some(done) if done.changed > 0 => {
                let line = format!(
                    "container {id}: {} files of {} have label {label} now",
                    done.changed,
                    path.display()
                );
                node.tell(&line);
            }
            Some(_) => {}
            // It was mounted with a label, or nobody's label counts there.
            None => node.tell(&format!("container {id}: {} keeps no labels of files", path.display())),
        }
    }
    Ok(())
}
