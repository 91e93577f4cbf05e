//! What a container has on disk, and the images that it holds.

use kernel::Namespace;

use crate::error::Result;
use crate::files::{self, remove_dir};
use crate::id::Id;
use crate::node::Node;
use crate::store::Container;

/// How the names of all holders of ours begin.
pub(crate) const HOLDER: &str = "cri-";

/// Under whose name a container's images are held: its own, and those that it mounts by number.
pub(crate) fn holder(id: &Id, mount: Option<usize>) -> String {
    mount.map_or_else(|| format!("{HOLDER}{id}"), |mount| format!("{HOLDER}{id}-{mount}"))
}

/// Removes a container's files, and releases its images. Blocks.
pub(crate) fn take_files(node: &Node, container: &Container) -> Result<()> {
    Namespace::unpin(&container.places.target())?;
    remove_dir(&container.places.run)?;
    node.images.release(&holder(&container.id, None))?;
    for (index, mount) in container.record().config.mounts.iter().enumerate() {
        if mount.image.is_some() {
            node.images.release(&holder(&container.id, Some(index)))?;
        }
    }
    // The next start of a server removes directories without a record.
    files::remove(&container.places.record())?;
    remove_dir(&container.places.state)
}
