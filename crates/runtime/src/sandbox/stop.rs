use std::sync::Arc;

use cri::ContainerEventType;
use kernel::{Namespace, NamespaceKind};
use tracing::info;

use super::namespaces;
use crate::container::{ended, stop};
use crate::error::Result;
use crate::files::make_dir;
use crate::monitors;
use crate::node::Node;
use crate::records::{CgroupParent, SandboxStage};
use crate::store::{Sandbox, if_any};
use crate::work::blocking;

/// Kills everything that runs in a sandbox and removes its network. Idempotent: a repeated call removes the rest.
pub(crate) async fn stop(node: Arc<Node>, id: String) -> Result<()> {
    let Some(sandbox) = if_any(node.store.sandbox(&id))? else { return Ok(()) };
    let _gate = sandbox.gate.lock().await;
    let was_ready = sandbox.is(SandboxStage::Ready);
    tear_down(&node, &sandbox).await?;
    if was_ready {
        let pod = super::called(&sandbox.record().config);
        info!(parent: &sandbox.span, sandbox = %sandbox.id, "sandbox {} of {pod} is stopped", sandbox.id);
        node.events.publish(&node.store, ContainerEventType::ContainerStoppedEvent, &sandbox.id, &sandbox);
    }
    Ok(())
}

/// All steps of it, each of which may have been done before. Under the gate.
pub(crate) async fn tear_down(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    for container in node.store.containers_of(&sandbox.id) {
        stop::kill(node, &container).await?;
        ended::clean(node, &container).await?;
    }
    if !sandbox.is(SandboxStage::Stopped) {
        let stopped = Arc::clone(sandbox);
        // From now on no call starts a monitor or a container.
        blocking(move || {
            make_dir(&stopped.places.state)?;
            stopped.change(|record| record.stage = SandboxStage::Stopped)
        })
        .await?;
    }
    let ended = Arc::clone(sandbox);
    blocking(move || monitors::end(&ended)).await?;
    let netns = sandbox.places.pin(NamespaceKind::Net);
    // The file without the namespace is what a pin is that was being made.
    let netns = Some(netns.as_path()).filter(|netns| Namespace::open(netns).is_ok());
    node.network.tear_down(sandbox.id.as_str(), netns).await?;
    let (on_node, places, cgroup) = (Arc::clone(node), sandbox.places.clone(), sandbox.record().cgroup);
    blocking(move || {
        namespaces::unmake(&places)?;
        match cgroup {
            CgroupParent::Own(path) => Ok(on_node.groups.remove(&path)?),
            CgroupParent::Given(_) => Ok(()),
        }
    })
    .await
}
