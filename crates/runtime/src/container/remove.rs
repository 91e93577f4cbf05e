use std::sync::Arc;

use kernel::Namespace;
use monitor::{Client, Request};
use wire::cri::ContainerEventType;

use super::{called, create, ended, stop};
use crate::book::{Container, if_any};
use crate::error::Result;
use crate::node::{Node, blocking, remove_dir};
use crate::{events, files};

/// Ends a container by force and takes away all of it; none there is fine.
pub(crate) async fn remove(node: Arc<Node>, id: String) -> Result<()> {
    let Some(container) = if_any(node.book.container(&id))? else { return Ok(()) };
    let sandbox = node.book.sandbox(container.sandbox.as_str())?;
    let _gate = sandbox.gate.lock().await;
    if node.book.container(container.id.as_str()).is_err() {
        return Ok(());
    }
    take_away(&node, &container).await?;
    node.tell(&format!("{} is removed", called(&container)));
    events::tell(&node, ContainerEventType::ContainerDeletedEvent, &container.id, &sandbox);
    Ok(())
}

/// All steps of it, each of which may have been done before. Under the gate.
pub(crate) async fn take_away(node: &Arc<Node>, container: &Arc<Container>) -> Result<()> {
    stop::kill(node, container).await?;
    ended::clean(node, container).await?;
    let (on_node, of_container) = (Arc::clone(node), Arc::clone(container));
    blocking(move || {
        forget(&on_node, &of_container);
        take_files(&on_node, &of_container)
    })
    .await?;
    node.book.remove_container(&container.id);
    Ok(())
}

/// Has the pod's monitor keep nothing of it. Without a monitor there is nothing kept; one that is started later
/// is told of running containers alone.
fn forget(node: &Node, container: &Container) {
    let sandbox = node.layout.sandbox(&container.sandbox);
    if let Ok(mut client) = Client::connect(&sandbox.run) {
        let _ = client.call(&Request::Forget { container: container.id.to_string() }, &[]);
    }
}

/// Takes away what a container has on disk, and lets go of its images. Blocks.
pub(crate) fn take_files(node: &Node, container: &Container) -> Result<()> {
    Namespace::unpin(&container.places.target())?;
    remove_dir(&container.places.run)?;
    node.images.release(&create::holder(&container.id, None))?;
    for (index, mount) in container.record().config.mounts.iter().enumerate() {
        if mount.image.is_some() {
            node.images.release(&create::holder(&container.id, Some(index)))?;
        }
    }
    // Without its record a directory is nobody's, and goes with the next start of a server.
    files::remove(&container.places.record())?;
    remove_dir(&container.places.state)
}
