//! IDs in use, as `/proc` shows them.

mod belonging;
mod fds;
mod kinds;
mod maps;
mod mounts;
mod own;
mod pinned;
mod status;
mod vantage;
mod walk;

use std::collections::{BTreeMap, HashMap};

use ids::witness::Hold;
use ids::{HostId, HostSpan};

use crate::error::CensusError;
use crate::host_root::HostRoot;
use crate::owner::{Home, Owner, OwnerKind, Report, Via};
use maps::Maps;
use pinned::Pin;
use walk::{Process, Walk};

pub(crate) use fds::Budget;

/// Looks at every task and at every user namespace within reach, and adds what was seen to `report`. Of open descriptors it
/// looks at as many as `fds` allows.
pub(crate) fn look(root: &HostRoot, report: &mut Report, fds: &Budget) -> Result<(), CensusError> {
    let seen = Walk::over(root, fds)?;
    report.blind.extend(vantage::limits(root));
    report.blind.extend(seen.blind);
    report.notes.extend(seen.notes);
    let pinned = pinned_namespaces(root, seen.pins, &seen.namespaces, &mut report.blind);
    report.owners.extend(task_namespaces(&seen.namespaces, &seen.lineage));
    report.owners.extend(pinned);
    report.owners.extend(seen.processes.into_iter().filter_map(process_owner));
    Ok(())
}

/// A user namespace that tasks live in.
pub(crate) struct Namespace {
    inode: Option<u64>,
    maps: Maps,
    pids: Vec<u32>,
}

/// The parent and the home of every process, to climb from a namespace to the one around it.
type Lineage = HashMap<u32, (u32, Home)>;

fn task_namespaces(namespaces: &[Namespace], lineage: &Lineage) -> Vec<Owner> {
    let with_ids = namespaces.iter().filter(|n| !n.maps.is_empty());
    with_ids
        .map(|n| {
            let kind = OwnerKind::UserNamespace {
                inode: n.inode,
                pids: n.pids.clone(),
                via: Via::Task,
                enclosing: enclosing(n, lineage),
            };
            let first = n.pids.first().map_or_else(String::new, |pid| format!(" of process {pid}"));
            namespace_owner(kind, &n.maps, &first)
        })
        .collect()
}

fn enclosing(inner: &Namespace, lineage: &Lineage) -> Option<u64> {
    let own = inner.inode?;
    let mut pid = *inner.pids.first()?;
    // A chain of parents cannot be longer than there are processes, whatever was read meanwhile.
    for _ in 0..=lineage.len() {
        let (parent, home) = lineage.get(&pid)?;
        match home {
            Home::Inode(inode) if *inode == own => pid = *parent,
            Home::Inode(inode) => return Some(*inode),
            Home::Host | Home::Unknown => return None,
        }
    }
    None
}

fn pinned_namespaces(
    root: &HostRoot,
    pins: BTreeMap<u64, Vec<Pin>>,
    known: &[Namespace],
    blind: &mut Vec<String>,
) -> Vec<Owner> {
    let mut owners = Vec::new();
    for (inode, mut pins) in pins {
        if known.iter().any(|n| n.inode == Some(inode)) {
            continue;
        }
        match pinned::maps_of(root, inode, &mut pins) {
            Ok(Some((pin, maps))) if !maps.is_empty() && !maps.is_the_hosts() => {
                let kind = OwnerKind::UserNamespace {
                    inode: Some(inode),
                    pids: vec![],
                    via: pin.via(),
                    enclosing: None,
                };
                owners.push(namespace_owner(kind, &maps, &format!(" held by {pin}")));
            }
            Ok(_) => {}
            Err(cause) => blind.push(format!("user namespace {inode}: {cause}")),
        }
    }
    owners
}

fn namespace_owner(kind: OwnerKind, maps: &Maps, whose: &str) -> Owner {
    let inode = match &kind {
        OwnerKind::UserNamespace { inode: Some(inode), .. } => format!(" {inode}"),
        _ => String::new(),
    };
    let name = format!("user namespace{inode}{whose}");
    Owner { kind, name, hold: Hold::Live, uids: maps.uids(), gids: maps.gids() }
}

fn process_owner(process: Process) -> Option<Owner> {
    let Process { pid, comm, home, credentials } = process;
    if credentials.uids.is_empty() && credentials.gids.is_empty() {
        return None;
    }
    let name = format!("process {pid} ({comm})");
    Some(Owner {
        name,
        hold: Hold::Live,
        uids: spans(credentials.uids.iter().copied()),
        gids: spans(credentials.gids.iter().copied()),
        kind: OwnerKind::Process { pid, comm, home, roles: credentials.roles.into_iter().collect() },
    })
}

/// Ascending IDs as the fewest spans.
fn spans(ids: impl Iterator<Item = HostId>) -> Vec<HostSpan> {
    let mut spans: Vec<HostSpan> = Vec::new();
    for id in ids {
        let grown = spans.last().filter(|s| s.end() == u64::from(id));
        let grown = grown.and_then(|s| HostSpan::new(s.first().into(), s.length() + 1).ok());
        match grown {
            Some(grown) => {
                spans.pop();
                spans.push(grown);
            }
            None => spans.push(HostSpan::single(id)),
        }
    }
    spans
}

#[cfg(test)]
mod tests;
