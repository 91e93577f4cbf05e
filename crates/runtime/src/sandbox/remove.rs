use std::sync::Arc;

use cri::ContainerEventType;
use tracing::info;

use super::{label, stop};
use crate::container;
use crate::error::Result;
use crate::files::{self, remove_dir};
use crate::node::Node;
use crate::store::{Sandbox, if_any};
use crate::work::blocking;

/// Stops a sandbox and takes away all of it, its containers included; none there is fine.
pub(crate) async fn remove(node: Arc<Node>, id: String) -> Result<()> {
    let Some(sandbox) = if_any(node.store.sandbox(&id))? else { return Ok(()) };
    let _gate = sandbox.gate.lock().await;
    take_away(&node, &sandbox).await?;
    let pod = super::called(&sandbox.record().config);
    info!(parent: &sandbox.span, sandbox = %sandbox.id, "sandbox {} of {pod} is removed", sandbox.id);
    node.events.publish(&node.store, ContainerEventType::ContainerDeletedEvent, &sandbox.id, &sandbox);
    Ok(())
}

/// All steps of it, each of which may have been done before. Under the gate.
pub(crate) async fn take_away(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    stop::tear_down(node, sandbox).await?;
    for container in node.store.containers_of(&sandbox.id) {
        container::remove::take_away(node, &container).await?;
        node.events.publish(&node.store, ContainerEventType::ContainerDeletedEvent, &container.id, sandbox);
    }
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    blocking(move || {
        let places = &of_sandbox.places;
        remove_dir(&places.run)?;
        // The next start of a server removes directories without a record.
        files::remove(&places.record())?;
        remove_dir(&places.state)?;
        label::release(&on_node, &of_sandbox.record())
    })
    .await?;
    node.store.remove_sandbox(&sandbox.id);
    Ok(())
}
