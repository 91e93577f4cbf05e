use std::sync::Arc;

use kernel::{Namespace, NamespaceKind};
use wire::cri::ContainerEventType;

use super::spaces;
use crate::book::{Sandbox, if_any};
use crate::container::{ended, stop};
use crate::error::Result;
use crate::node::{Node, blocking, make_dir};
use crate::records::{CgroupParent, SandboxStage};
use crate::{events, monitors};

/// Ends everything that runs in a sandbox and takes its network away; asked again, what is left of it.
pub(crate) async fn stop(node: Arc<Node>, id: String) -> Result<()> {
    let Some(sandbox) = if_any(node.book.sandbox(&id))? else { return Ok(()) };
    let _gate = sandbox.gate.lock().await;
    let was_ready = sandbox.is(SandboxStage::Ready);
    tear_down(&node, &sandbox).await?;
    if was_ready {
        node.tell(&format!(
            "sandbox {} of {} is stopped",
            sandbox.id,
            super::called(&sandbox.record().config)
        ));
        events::tell(&node, ContainerEventType::ContainerStoppedEvent, &sandbox.id, &sandbox);
    }
    Ok(())
}

/// All steps of it, each of which may have been done before. Under the gate.
pub(crate) async fn tear_down(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    for container in node.book.containers_of(&sandbox.id) {
        stop::kill(node, &container).await?;
        ended::clean(node, &container).await?;
    }
    if !sandbox.is(SandboxStage::Stopped) {
        let stopped = Arc::clone(sandbox);
        // From now on nobody starts a monitor anew, and no container.
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
        spaces::unmake(&places)?;
        match cgroup {
            CgroupParent::Own(path) => on_node.groups.remove(&path),
            CgroupParent::Given(_) => Ok(()),
        }
    })
    .await
}
