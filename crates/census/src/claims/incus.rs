//! Instances of Incus and LXD.
//!
//! Each keeps a `backup.yaml` whose `volatile.*idmap*` keys hold the maps as one line of JSON text,
//! quoted the one way or the other. Only those lines are looked at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ids::{HostSpan, IdMapping};
use serde::Deserialize;

use super::{Claims, Ids};
use crate::owner::OwnerKind;

const HOMES: [&str; 3] = ["/var/lib/incus", "/var/lib/lxd", "/var/snap/lxd/common/lxd"];
const KEYS: [&str; 3] = ["volatile.idmap.current:", "volatile.idmap.next:", "volatile.last_state.idmap:"];

pub(super) fn read(claims: &mut Claims<'_>) {
    for home in HOMES.map(Path::new) {
        let mut done = BTreeSet::new();
        for instances in directories(claims, home) {
            for instance in claims.names(&instances) {
                let file = instances.join(&instance).join("backup.yaml");
                if done.contains(&instance) {
                    continue;
                }
                let Some(text) = claims.text(&file) else { continue };
                add(claims, &file, &instance, &text);
                done.insert(instance);
            }
        }
    }
}

/// Where instances are found: with their pool, and in older layouts by name alone.
fn directories(claims: &mut Claims<'_>, home: &Path) -> Vec<PathBuf> {
    let pools = home.join("storage-pools");
    let pooled = claims.names(&pools).into_iter().map(|pool| pools.join(pool).join("containers"));
    pooled.chain([home.join("containers")]).collect()
}

fn add(claims: &mut Claims<'_>, file: &Path, instance: &str, text: &str) {
    let mut ids = Ids::default();
    for (line, number) in text.lines().zip(1..) {
        let Some(value) = KEYS.iter().find_map(|key| line.trim_start().strip_prefix(key)) else { continue };
        if let Err(cause) = collect(value, &mut ids) {
            claims.problem(file, format!("line {number}: {cause}"));
        }
    }
    for spans in [&mut ids.uids, &mut ids.gids] {
        spans.sort();
        spans.dedup();
    }
    if !ids.is_empty() {
        let name = format!("instance {instance} ({})", file.display());
        claims.add(OwnerKind::Incus { instance: instance.to_owned() }, name, ids);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    #[serde(default)]
    isuid: bool,
    #[serde(default)]
    isgid: bool,
    hostid: u64,
    nsid: u64,
    maprange: u64,
}

fn collect(value: &str, ids: &mut Ids) -> Result<(), String> {
    let Some((from, to)) = value.find('[').zip(value.rfind(']')) else {
        // An instance that never ran, or runs with the host's IDs, has an empty value.
        return Ok(());
    };
    let json = value.get(from..=to).unwrap_or_default().replace("\\\"", "\"");
    let lines: Vec<Line> = serde_json::from_str(&json).map_err(|e| format!("not an ID map: {e}"))?;
    for line in lines {
        let mapping = IdMapping::new(line.nsid, line.hostid, line.maprange);
        let span: HostSpan = mapping.map_err(|e| e.to_string())?.host();
        if line.isuid {
            ids.uids.push(span);
        }
        if line.isgid {
            ids.gids.push(span);
        }
    }
    Ok(())
}
