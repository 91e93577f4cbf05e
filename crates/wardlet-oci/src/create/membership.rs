//! Finds the sandbox of a container by its network namespace.
//!
//! Annotations only name a sandbox, and a pod's author can write them. The container runtime creates the network
//! namespace in the configuration for the pod: all containers of a pod are in it, and no other pod is. The host's
//! network namespace proves nothing, since many pods are in it; no isolated pod is.

use std::path::Path;

use kernel::{Namespace, NamespaceId, NamespaceKind, Process};
use oci_records::{Record, Standing, first_process};

use crate::error::Result;
use crate::site::Site;

/// Whether all of these network namespaces, from a configuration, are that of a process, and not the host's.
pub(super) fn is_in(networks: &[String], process: &Process) -> Result<bool> {
    let its = process.namespace(NamespaceKind::Net)?.id();
    Ok(its != hosts()? && !networks.is_empty() && networks.iter().all(|path| id(path) == Some(its)))
}

/// The record of the sandbox with a user namespace that runs in one of these network namespaces, if there is one.
pub(super) fn isolated_sandbox(site: &Site<'_>, networks: &[String]) -> Result<Option<Record>> {
    let hosts = hosts()?;
    let ids: Vec<NamespaceId> =
        networks.iter().filter_map(|path| id(path)).filter(|id| *id != hosts).collect();
    if ids.is_empty() {
        return Ok(None);
    }
    // No container can join a pod whose record cannot be read.
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
    let Standing::Isolated { ids: Some(ids), .. } = &record.standing else { return None };
    let process = Process::open(first_process(&record.pid_file, ids)?).ok()?;
    Some(process.namespace(NamespaceKind::Net).ok()?.id())
}

fn hosts() -> Result<NamespaceId> {
    Ok(Process::own()?.namespace(NamespaceKind::Net)?.id())
}

/// The identity of the network namespace at a path; `None` for an empty path, for which the runtime creates one, or if
/// it cannot be opened.
fn id(path: &str) -> Option<NamespaceId> {
    if path.is_empty() {
        return None;
    }
    let namespace = Namespace::open(Path::new(path)).ok()?;
    (namespace.kind() == NamespaceKind::Net).then(|| namespace.id())
}
