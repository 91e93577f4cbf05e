use std::sync::Arc;

use super::read::{Known, ids};
use crate::container::create::HOLDER;
use crate::error::Result;
use crate::id::Id;
use crate::monitors;
use crate::node::{Node, blocking, remove_dir};
use crate::sandbox::spaces;

/// Removes what has no record. What cannot be removed is told, and tried again by the next server.
pub(super) async fn remove(node: &Arc<Node>, known: &Known) {
    let sandboxes = known.sandboxes.clone();
    let containers = known.containers.clone();
    let on_node = Arc::clone(node);
    let kept = (sandboxes.clone(), containers);
    let outcome = blocking(move || {
        let (sandboxes, containers) = kept;
        tell(&on_node, groups(&on_node, |id| sandboxes.contains(id)));
        for id in ids(&on_node.layout.sandbox_runs())?.iter().filter(|id| !sandboxes.contains(id)) {
            tell(&on_node, run_dir(&on_node, id));
        }
        for id in ids(&on_node.layout.container_runs())?.iter().filter(|id| !containers.contains(id)) {
            tell(&on_node, remove_dir(&on_node.layout.container(id).run));
        }
        images(&on_node, |id| containers.contains(id))
    })
    .await;
    tell(node, outcome);
    tell(node, leases(node, |id| sandboxes.contains(id)).await);
}

fn tell(node: &Node, outcome: Result<()>) {
    if let Err(error) = outcome {
        node.tell(&format!("what has no record is not all removed: {error}"));
    }
}

/// A sandbox's directory: its monitor, its pins, itself.
fn run_dir(node: &Node, id: &Id) -> Result<()> {
    let places = node.layout.sandbox(id);
    monitors::end(&places)?;
    spaces::unmake(&places)?;
    node.tell(&format!("removed what was left of sandbox {id}, which has no record"));
    remove_dir(&places.run)
}

/// Control groups below our own.
fn groups(node: &Node, known: impl Fn(&Id) -> bool) -> Result<()> {
    let parent = &node.settings.cgroup;
    for name in node.groups.below(parent)? {
        if Id::parse(&name).is_some_and(|id| !known(&id)) {
            let path = format!("{parent}/{name}");
            node.groups.kill_all(&path)?;
            node.groups.remove(&path)?;
        }
    }
    Ok(())
}

/// Images that containers hold which are gone.
fn images(node: &Node, known: impl Fn(&Id) -> bool) -> Result<()> {
    for holder in node.images.list()?.images.into_iter().flat_map(|image| image.users) {
        let rest = holder.strip_prefix(HOLDER).unwrap_or_default();
        let id = rest.split('-').next().and_then(Id::parse);
        if id.is_some_and(|id| !known(&id)) {
            node.images.release(&holder)?;
        }
    }
    Ok(())
}

/// Addresses of sandboxes that are gone.
async fn leases(node: &Node, known: impl Fn(&Id) -> bool) -> Result<()> {
    for lease in node.network.leases().await? {
        if Id::parse(&lease).is_some_and(|id| !known(&id)) {
            node.network.tear_down(&lease, None).await?;
        }
    }
    Ok(())
}
