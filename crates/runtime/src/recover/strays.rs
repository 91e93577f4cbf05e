//! What has no record, wherever it may be: processes first, then what they were in, their directories last,
//! since these are how the next server finds what this one could not remove.

use std::path::Path;
use std::sync::Arc;

use kernel::Namespace;

use super::read::{Known, ids};
use crate::container::create::HOLDER;
use crate::container::ended;
use crate::error::Result;
use crate::id::Id;
use crate::layout::ContainerPlaces;
use crate::node::{Node, blocking, remove_dir};
use crate::sandbox::spaces;
use crate::watchers;

/// Removes it. What cannot be removed is told, and tried again by the next server.
pub(super) async fn remove(node: &Arc<Node>, known: &Known) {
    let (on_node, kept) = (Arc::clone(node), known.clone());
    told(node, blocking(move || watchers(&on_node, &kept)).await);
    // Whoever is on its way to start one holds a lock that this waits for.
    for id in &known.nobodys.containers {
        told(node, ended::clean_unknown(node, &node.layout.container(id)).await);
    }
    let (on_node, kept) = (Arc::clone(node), known.clone());
    told(node, blocking(move || all_but_network(&on_node, &kept)).await);
    told(node, leases(node, |id| known.sandboxes.contains(id)).await);
    let (on_node, kept) = (Arc::clone(node), known.clone());
    told(node, blocking(move || states(&on_node, &kept)).await);
}

fn told(node: &Node, outcome: Result<()>) {
    if let Err(error) = outcome {
        node.tell(&format!("what has no record is not all removed: {error}"));
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
    told(node, groups(node, known));
    for id in ids(&node.layout.sandbox_runs())?.iter().filter(|id| !known.sandboxes.contains(id)) {
        told(node, run_dir(node, id));
    }
    for id in ids(&node.layout.container_runs())?.iter().filter(|id| !known.containers.contains(id)) {
        told(node, container_run_dir(&node.layout.container(id)));
    }
    images(node, |id| known.containers.contains(id))
}

/// A sandbox's directory: its pins and itself.
fn run_dir(node: &Node, id: &Id) -> Result<()> {
    let places = node.layout.sandbox(id);
    watchers::end_init(&places.run)?;
    spaces::unmake(&places)?;
    node.tell(&format!("removed what was left of sandbox {id}, which has no record"));
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
        told(node, end_group(node, &path));
    }
    let nobodys = &known.nobodys;
    if nobodys.sandboxes.is_empty() && nobodys.containers.is_empty() {
        return Ok(());
    }
    let had = |id: &Id| nobodys.sandboxes.contains(id) || nobodys.containers.contains(id);
    for path in node.groups.named(|name| Id::parse(name).is_some_and(|id| had(&id)))? {
        told(node, end_group(node, &path));
    }
    Ok(())
}

/// Those with the name of a sandbox or container that is not known.
fn own_strays(node: &Node, known: &Known) -> Result<Vec<String>> {
    let parent = &node.settings.cgroup;
    let mut strays = vec![];
    for name in node.groups.below(parent)? {
        let path = format!("{parent}/{name}");
        match Id::parse(&name) {
            Some(id) if !known.sandboxes.contains(&id) => strays.push(path),
            Some(_) => {
                let inside = node.groups.below(&path)?.into_iter();
                let unknown =
                    inside.filter(|name| Id::parse(name).is_some_and(|id| !known.containers.contains(&id)));
                strays.extend(unknown.map(|name| format!("{path}/{name}")));
            }
            None => {}
        }
    }
    Ok(strays)
}

fn end_group(node: &Node, path: &str) -> Result<()> {
    node.groups.kill_all(path)?;
    node.groups.remove(path)
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

fn states(node: &Node, known: &Known) -> Result<()> {
    for id in &known.nobodys.sandboxes {
        told(node, remove_dir(&node.layout.sandbox(id).state));
    }
    for id in &known.nobodys.containers {
        told(node, remove_dir(&node.layout.container(id).state));
    }
    Ok(())
}
