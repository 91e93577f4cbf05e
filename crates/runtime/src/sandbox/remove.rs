use std::sync::Arc;

use wire::cri::ContainerEventType;

use super::stop;
use crate::book::{Sandbox, if_any};
use crate::container;
use crate::error::Result;
use crate::node::{Node, blocking, remove_dir};
use crate::{events, files};

/// Stops a sandbox and takes away all of it, its containers included; none there is fine.
pub(crate) async fn remove(node: Arc<Node>, id: String) -> Result<()> {
    let Some(sandbox) = if_any(node.book.sandbox(&id))? else { return Ok(()) };
    let _gate = sandbox.gate.lock().await;
    take_away(&node, &sandbox).await?;
    node.tell(&format!("sandbox {} of {} is removed", sandbox.id, super::called(&sandbox.record().config)));
    events::tell(&node, ContainerEventType::ContainerDeletedEvent, &sandbox.id, &sandbox);
    Ok(())
}

/// All steps of it, each of which may have been done before. Under the gate.
pub(crate) async fn take_away(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    stop::tear_down(node, sandbox).await?;
    for container in node.book.containers_of(&sandbox.id) {
        container::remove::take_away(node, &container).await?;
        events::tell(node, ContainerEventType::ContainerDeletedEvent, &container.id, sandbox);
    }
    let places = sandbox.places.clone();
    blocking(move || {
        remove_dir(&places.run)?;
        // Without its record a directory is nobody's, and goes with the next start of a server.
        files::remove(&places.record())?;
        remove_dir(&places.state)
    })
    .await?;
    node.book.remove_sandbox(&sandbox.id);
    Ok(())
}
