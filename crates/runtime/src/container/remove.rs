use std::sync::Arc;

use cri::ContainerEventType;
use monitor::{Client, Request};
use tracing::info;

use super::files::take_files;
use super::{called, ended, stop};
use crate::error::Result;
use crate::node::Node;
use crate::sandbox::label;
use crate::store::{Container, if_any};
use crate::work::blocking;

/// Ends a container by force and takes away all of it; none there is fine.
pub(crate) async fn remove(node: Arc<Node>, id: String) -> Result<()> {
    let Some(container) = if_any(node.store.container(&id))? else { return Ok(()) };
    let sandbox = node.store.sandbox(container.sandbox.as_str())?;
    let _gate = sandbox.gate.lock().await;
    if node.store.container(container.id.as_str()).is_err() {
        return Ok(());
    }
    take_away(&node, &container).await?;
    info!(parent: &sandbox.span, container = %container.id, "{} is removed", called(&container));
    node.events.publish(&node.store, ContainerEventType::ContainerDeletedEvent, &container.id, &sandbox);
    Ok(())
}

/// All steps of it, each of which may have been done before. Under the gate.
pub(crate) async fn take_away(node: &Arc<Node>, container: &Arc<Container>) -> Result<()> {
    stop::kill(node, container).await?;
    ended::clean(node, container).await?;
    let (on_node, of_container) = (Arc::clone(node), Arc::clone(container));
    blocking(move || {
        forget(&on_node, &of_container);
        take_files(&on_node, &of_container)?;
        label::release_container(&on_node, &of_container.id, &of_container.record().config)
    })
    .await?;
    node.store.remove_container(&container.id);
    Ok(())
}

/// Has the pod's monitor drop its state of the container. A monitor that is started later receives running
/// containers only.
fn forget(node: &Node, container: &Container) {
    let sandbox = node.layout.sandbox(&container.sandbox);
    if let Ok(mut client) = Client::connect(&sandbox.run) {
        let _ = client.call(&Request::Forget { container: container.id.to_string() }, &[]);
    }
}
