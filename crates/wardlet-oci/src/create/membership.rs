//! Which sandbox a container is of, by its network namespace.
//!
//! Annotations only name a sandbox, and a pod's author can write them. The network namespace in the configuration is
//! what the container runtime made for the pod: all containers of a pod are in one, and no other pod is. The host's
//! network shows nothing, since many pods are in it; no isolated pod is.

use std::path::Path;

use kernel::{Namespace, NamespaceId, NamespaceKind, Process};

use crate::error::Result;
use crate::lease::{Record, Standing, init_of};
use crate::site::Site;

/// Whether a configuration with these network namespaces puts its container into that of a process.
pub(super) fn is_in(networks: &[String], process: &Process) -> Result<bool> {
    let its = process.namespace(NamespaceKind::Net)?.id();
    Ok(its != hosts()? && !networks.is_empty() && networks.iter().all(|path| id(path) == Some(its)))
}

/// The sandbox with a user namespace from us that these network namespaces are of, if there is one.
pub(super) fn isolated_sandbox(site: &Site<'_>, networks: &[String]) -> Result<Option<Record>> {
    let hosts = hosts()?;
    let ids: Vec<NamespaceId> =
        networks.iter().filter_map(|path| id(path)).filter(|id| *id != hosts).collect();
    if ids.is_empty() {
        return Ok(None);
    }
    // A record that cannot be read is of a pod that nothing can join.
    let (records, _) = site.records.all()?;
    let root = site.root();
    let is_its = |record: &Record| {
        record.root == root
            && record.is_sandbox()
            && network_of(record).is_some_and(|network| ids.contains(&network))
    };
    Ok(records.into_iter().find(is_its))
}

/// The network namespace of a sandbox that has a user namespace and runs.
fn network_of(record: &Record) -> Option<NamespaceId> {
    let Standing::Ward { ids: Some(ids), .. } = &record.standing else { return None };
    let process = Process::open(init_of(&record.pid_file, ids)?).ok()?;
    Some(process.namespace(NamespaceKind::Net).ok()?.id())
}

fn hosts() -> Result<NamespaceId> {
    Ok(Process::own()?.namespace(NamespaceKind::Net)?.id())
}

/// Which network namespace is at a path; none for one that the runtime would make, or that cannot be opened.
fn id(path: &str) -> Option<NamespaceId> {
    if path.is_empty() {
        return None;
    }
    let namespace = Namespace::open(Path::new(path)).ok()?;
    (namespace.kind() == NamespaceKind::Net).then(|| namespace.id())
}
