//! What has no record, wherever it may be: processes first, then what they were in, their directories last,
//! since these are how the next server finds what this one could not remove. Each removal is one line of the log; one
//! that fails keeps no other.

use std::path::Path;
use std::sync::Arc;

use kernel::Namespace;
use tracing::{info, warn};

use super::read::{Known, ids};
use crate::container::ended;
use crate::container::files::HOLDER;
use crate::error::Result;
use crate::files::remove_dir;
use crate::id::Id;
use crate::layout::ContainerPlaces;
use crate::node::Node;
use crate::sandbox::namespaces;
use crate::watchers;
use crate::work::blocking;

/// Removes orphans. A failure is logged, and the next server tries again.
pub(super) async fn remove(node: &Arc<Node>, known: &Known) {
    let (on_node, kept) = (Arc::clone(node), known.clone());
    warn_of(blocking(move || watchers(&on_node, &kept)).await);
    // A process that starts a container holds a lock that this waits for.
    for id in &known.orphans.containers {
        let cleaned = ended::clean_unknown(node, &node.layout.container(id)).await;
        log(cleaned, &format!("the processes and mounts of container {id}"));
    }
    let (on_node, kept) = (Arc::clone(node), known.clone());
    warn_of(blocking(move || all_but_network(&on_node, &kept)).await);
    warn_of(leases(node, |id| known.sandboxes.contains(id)).await);
    let (on_node, kept) = (Arc::clone(node), known.clone());
    let removed = move || {
        states(&on_node, &kept);
        Ok(())
    };
    warn_of(blocking(removed).await);
}

fn warn_of(outcome: Result<()>) {
    if let Err(error) = outcome {
        warn!("what has no record is not all removed: {error}");
    }
}

/// Logs what has come of one removal.
fn log(outcome: Result<()>, what: &str) {
    match outcome {
        Ok(()) => info!("removed {what}, which has no record"),
        Err(error) => warn!("cannot remove {what}, which has no record: {error}"),
    }
}

/// Monitors of pods that are gone, and what would have become one.
fn watchers(node: &Node, known: &Known) -> Result<()> {
    let runs = node.layout.sandbox_runs();
    let id_of = |dir: &Path| {
        let name = dir.file_name().and_then(|name| name.to_str());
        name.filter(|_| dir.parent() == Some(&*runs)).and_then(Id::parse)
    };
    watchers::end_all(|dir| id_of(dir).is_some_and(|id| !known.sandboxes.contains(&id)))
}

fn all_but_network(node: &Node, known: &Known) -> Result<()> {
    warn_of(groups(node, known));
    for id in ids(&node.layout.sandbox_runs())?.iter().filter(|id| !known.sandboxes.contains(id)) {
        log(run_dir(node, id), &format!("the namespaces of sandbox {id}"));
    }
    for id in ids(&node.layout.container_runs())?.iter().filter(|id| !known.containers.contains(id)) {
        log(container_run_dir(&node.layout.container(id)), &format!("the run directory of container {id}"));
    }
    images(node, |id| known.containers.contains(id))
}

/// A sandbox's directory: its pins and itself.
fn run_dir(node: &Node, id: &Id) -> Result<()> {
    let places = node.layout.sandbox(id);
    watchers::end_init(&places.run)?;
    namespaces::unmake(&places)?;
    remove_dir(&places.run)
}

/// A container's directory: what it pins and itself.
fn container_run_dir(places: &ContainerPlaces) -> Result<()> {
    Namespace::unpin(&places.target())?;
    remove_dir(&places.run)
}

/// Control groups below our own, and those of what had a directory, wherever the caller wanted them.
fn groups(node: &Node, known: &Known) -> Result<()> {
    for path in own_strays(node, known)? {
        log(end_group(node, &path), &format!("control group {path}"));
    }
    let orphans = &known.orphans;
    if orphans.sandboxes.is_empty() && orphans.containers.is_empty() {
        return Ok(());
    }
    let had = |id: &Id| orphans.sandboxes.contains(id) || orphans.containers.contains(id);
    for path in node.groups.named(|name| Id::parse(name).is_some_and(|id| had(&id)))? {
        log(end_group(node, &path), &format!("control group {path}"));
    }
    Ok(())
}

/// Those with the name of a sandbox or container that is not known.
fn own_strays(node: &Node, known: &Known) -> Result<Vec<String>> {
    let parent = &node.settings.cgroup;
    let mut orphans = vec![];
    for name in node.groups.below(parent)? {
        let path = format!("{parent}/{name}");
        match Id::parse(&name) {
            Some(id) if !known.sandboxes.contains(&id) => orphans.push(path),
            Some(_) => {
                let inside = node.groups.below(&path)?.into_iter();
                let unknown =
                    inside.filter(|name| Id::parse(name).is_some_and(|id| !known.containers.contains(&id)));
                orphans.extend(unknown.map(|name| format!("{path}/{name}")));
            }
            None => {}
        }
    }
    Ok(orphans)
}

fn end_group(node: &Node, path: &str) -> Result<()> {
    node.groups.kill_all(path)?;
    Ok(node.groups.remove(path)?)
}

/// Images that containers hold which are gone.
fn images(node: &Node, known: impl Fn(&Id) -> bool) -> Result<()> {
    for holder in node.images.list()?.images.into_iter().flat_map(|image| image.users) {
        let rest = holder.strip_prefix(HOLDER).unwrap_or_default();
        let id = rest.split('-').next().and_then(Id::parse);
        if let Some(id) = id.filter(|id| !known(id)) {
            let released = node.images.release(&holder).map_err(Into::into);
            log(released, &format!("the use of an image by container {id}"));
        }
    }
    Ok(())
}

/// Addresses of sandboxes that are gone.
async fn leases(node: &Node, known: impl Fn(&Id) -> bool) -> Result<()> {
    for lease in node.network.leases().await? {
        if let Some(id) = Id::parse(&lease).filter(|id| !known(id)) {
            let torn_down = node.network.tear_down(&lease, None).await.map_err(Into::into);
            log(torn_down, &format!("the network of sandbox {id}"));
        }
    }
    Ok(())
}

fn states(node: &Node, known: &Known) {
    for id in &known.orphans.sandboxes {
        log(remove_dir(&node.layout.sandbox(id).state), &format!("the directory of sandbox {id}"));
    }
    for id in &known.orphans.containers {
        log(remove_dir(&node.layout.container(id).state), &format!("the directory of container {id}"));
    }
}
