//! The last check of an edited configuration before the runtime gets it: every restriction of the caller's
//! configuration must still be there.

mod mounts;
mod references;

pub use references::foreign_reference;

use std::path::Path;

use serde_json::{Map, Value};

/// The parts that wardlet edits; all others must be equal.
const EDITED: [&str; 4] = ["annotations", "linux", "mounts", "root"];
const EDITED_LINUX: [&str; 5] = ["devices", "gidMappings", "namespaces", "sysctl", "uidMappings"];

/// The annotation with the index of the pod's block in its pool, under the key that gVisor's shim uses.
pub(crate) const SLOT_KEY: &str = "dev.gvisor.shim.userns.slot";
/// The annotation with the block: first user ID, first group ID, and length.
pub(crate) const BLOCK_KEY: &str = "wardlet.dev/block";

/// The first part in which `after` allows more than `before`, if there is one.
#[must_use]
pub fn weakened(before: &Value, after: &Value) -> Option<String> {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return Some("the whole".to_owned());
    };
    differing(before, after, &EDITED)
        .or_else(|| annotations(before, after))
        .or_else(|| root(before, after))
        .or_else(|| linux(before, after))
        .or_else(|| mounts::loosened(before, after))
}

fn differing(before: &Map<String, Value>, after: &Map<String, Value>, edited: &[&str]) -> Option<String> {
    let keys = before.keys().chain(after.keys()).filter(|key| !edited.contains(&key.as_str()));
    keys.into_iter().find(|key| before.get(*key) != after.get(*key)).cloned()
}

/// Annotations are kept, and only wardlet's own are added: some annotations make a runtime skip a step.
fn annotations(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let none = Map::new();
    let of = |whole| object(whole, "annotations").unwrap_or(&none);
    let (given, kept) = (of(before), of(after));
    let changed = given.iter().find(|(key, value)| kept.get(*key) != Some(value));
    let ours = |key: &str| [SLOT_KEY, BLOCK_KEY].contains(&key);
    let new = || kept.iter().find(|(key, _)| !given.contains_key(*key) && !ours(key));
    changed.or_else(new).map(|(key, _)| format!("annotations.{key}"))
}

fn root(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let none = Map::new();
    let of = |whole| object(whole, "root").unwrap_or(&none);
    differing(of(before), of(after), &["path"]).map(|key| format!("root.{key}"))
}

fn linux(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let none = Map::new();
    let of = |whole| object(whole, "linux").unwrap_or(&none);
    let (before, after) = (of(before), of(after));
    let part = differing(before, after, &EDITED_LINUX)
        .or_else(|| namespaces(before, after))
        .or_else(|| maps(after))
        .or_else(|| sysctls(before, after))
        .or_else(|| devices(before, after));
    part.map(|part| format!("linux.{part}"))
}

/// Every namespace is kept, and a user namespace is added. A network namespace with a path may be missing, since this
/// process may have joined it already. An IPC or UTS namespace with a path may be replaced by the pod's own: a new one,
/// or one that is pinned in the directory of the user namespace.
fn namespaces(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let kind = |space: &Value| space.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (given, kept) = (items(before, "namespaces"), items(after, "namespaces"));
    if kept.iter().filter(|space| kind(space) == "user").count() != 1 {
        return Some("namespaces (user)".to_owned());
    }
    let joined = |space: &Value| kind(space) == "network" && path(space).is_some();
    let lost = given.iter().filter(|space| kind(space) != "user" && !kept.contains(space));
    let lost = lost.filter(|space| !joined(space) || kept.iter().any(|other| kind(other) == kind(space)));
    let dir = |space: &Value| path(space).and_then(|path| Path::new(path).parent().map(Path::to_owned));
    let users = kept.iter().find(|space| kind(space) == "user").and_then(dir);
    let is_own = |space: &Value| path(space).is_none() || users.is_some() && dir(space) == users;
    let stands_for = |own: &Value, space: &Value| {
        let alike = ["ipc", "uts"].contains(&kind(own).as_str()) && kind(own) == kind(space);
        alike && path(space).is_some() && is_own(own)
    };
    let lost = lost.filter(|space| !kept.iter().any(|own| stands_for(own, space)));
    let added = kept.iter().filter(|space| kind(space) != "user" && !given.contains(space));
    let added = added.filter(|own| !given.iter().any(|space| stands_for(own, space)));
    lost.chain(added).next().map(|space| format!("namespaces ({})", kind(space)))
}

/// The path of a namespace that the runtime joins; `None` for one that it creates.
fn path(space: &Value) -> Option<&str> {
    space.get("path").and_then(Value::as_str).filter(|path| !path.is_empty())
}

/// No ID mapping may include the host's IDs 0-65535.
fn maps(after: &Map<String, Value>) -> Option<String> {
    ["uidMappings", "gidMappings"].into_iter().find_map(|name| {
        let on_host =
            |line: &Value| line.get("hostID").and_then(Value::as_u64).is_none_or(|id| id < ids::UNIT);
        items(after, name).iter().any(on_host).then(|| name.to_owned())
    })
}

/// Network sysctls may be missing, since they may be set already, and may have another value. No other sysctl may
/// change, and none may be added.
fn sysctls(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let none = Map::new();
    let of = |linux| object(linux, "sysctl").unwrap_or(&none);
    let (given, kept) = (of(before), of(after));
    let networks = |name: &str| name.starts_with("net.") || name.starts_with("net/");
    let lost = given.iter().find(|(name, value)| !networks(name) && kept.get(*name) != Some(value));
    let new = || kept.iter().find(|(name, _)| !given.contains_key(*name));
    lost.or_else(new).map(|(name, _)| format!("sysctl.{name}"))
}

fn devices(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let given = items(before, "devices");
    items(after, "devices").iter().find(|device| !given.contains(device)).map(|_| "devices".to_owned())
}

fn object<'a>(of: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    of.get(key).and_then(Value::as_object)
}

fn items<'a>(of: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
