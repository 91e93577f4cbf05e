//! The store that podman, CRI-O and buildah share, as far as root's goes.
//!
//! `<store>/<driver>-containers/containers.json` lists containers, each with the maps it was made
//! with; `volatile-containers.json` those that do not outlive the boot. CRI-O puts a JSON text of
//! its own into `metadata`: the sandbox's ID in every container's, the pod's UID in the sandbox's.

use std::collections::HashMap;
use std::path::Path;

use ids::{HostSpan, IdMapping};
use serde::Deserialize;

use super::{Claims, Ids};
use crate::owner::OwnerKind;

const STORE: &str = "/var/lib/containers/storage";
const LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];

pub(super) fn read(claims: &mut Claims<'_>) {
    for driver in claims.names(STORE).into_iter().filter(|n| n.ends_with("-containers")) {
        let mut containers = Vec::new();
        for list in LISTS {
            let file = Path::new(STORE).join(&driver).join(list);
            let Some(content) = claims.content(&file) else { continue };
            match serde_json::from_slice::<Option<Vec<Container>>>(&content) {
                Ok(listed) => containers.extend(listed.unwrap_or_default()),
                Err(_) if content.trim_ascii().is_empty() => {}
                Err(e) => claims.problem(&file, format!("not a list of containers: {e}")),
            }
        }
        add(claims, &Path::new(STORE).join(&driver), containers);
    }
}

fn add(claims: &mut Claims<'_>, store: &Path, containers: Vec<Container>) {
    let pods = pods_of_sandboxes(&containers);
    for container in containers {
        let pod = container.metadata().and_then(|m| pods.get(&m.sandbox).cloned());
        let name = container.names.first().unwrap_or(&container.id).clone();
        let ids = spans(&container.uids).and_then(|uids| Ok(Ids { uids, gids: spans(&container.gids)? }));
        match ids {
            Ok(ids) if ids.is_empty() => {}
            Ok(ids) => {
                let title = format!("container {name} in the store {}", store.display());
                claims.add(OwnerKind::Podman { container: name, pod }, title, ids);
            }
            Err(cause) => claims.problem(store, format!("container {name}: {cause}")),
        }
    }
}

fn pods_of_sandboxes(containers: &[Container]) -> HashMap<String, String> {
    let sandboxes = containers.iter().filter_map(Container::metadata).filter(|m| !m.pod.is_empty());
    sandboxes.map(|m| (m.sandbox, m.pod)).collect()
}

#[derive(Deserialize)]
struct Container {
    id: String,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    metadata: String,
    #[serde(default, rename = "uidmap")]
    uids: Vec<Line>,
    #[serde(default, rename = "gidmap")]
    gids: Vec<Line>,
}

impl Container {
    /// Podman's own metadata, or none, is no error: only CRI-O knows pods.
    fn metadata(&self) -> Option<CrioMetadata> {
        serde_json::from_str(&self.metadata).ok()
    }
}

#[derive(Deserialize)]
struct CrioMetadata {
    #[serde(rename = "pod-id")]
    sandbox: String,
    #[serde(default, rename = "uid")]
    pod: String,
}

#[derive(Deserialize)]
struct Line {
    container_id: u64,
    host_id: u64,
    size: u64,
}

/// A line that maps every ID to itself is a container on the host's IDs, and no claim.
fn spans(lines: &[Line]) -> Result<Vec<HostSpan>, String> {
    let claimed = lines.iter().filter(|l| l.container_id != l.host_id || l.size < u64::from(u32::MAX));
    claimed
        .map(|l| {
            let mapping = IdMapping::new(l.container_id, l.host_id, l.size);
            mapping.map(IdMapping::host).map_err(|e| e.to_string())
        })
        .collect()
}
