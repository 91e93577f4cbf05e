//! The last look at a configuration before it is handed over: whatever was done to it, it keeps every
//! restriction that its caller put there.

use serde_json::{Map, Value};

/// The parts that are edited; of all others not a letter changes.
const EDITED: [&str; 4] = ["annotations", "linux", "mounts", "root"];
const EDITED_LINUX: [&str; 5] = ["devices", "gidMappings", "namespaces", "sysctl", "uidMappings"];

/// Options of a mount that take something from the container, and what may stand in for them: mounts
/// below one that is read-only throughout are made so before the runtime sees it.
const RESTRICTING: [(&str, &[&str]); 9] = [
    ("ro", &["ro"]),
    ("rro", &["rro", "ro"]),
    ("nosuid", &["nosuid"]),
    ("rnosuid", &["rnosuid", "nosuid"]),
    ("nodev", &["nodev"]),
    ("rnodev", &["rnodev", "nodev"]),
    ("noexec", &["noexec"]),
    ("rnoexec", &["rnoexec", "noexec"]),
    ("nosymfollow", &["nosymfollow"]),
];

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
        .or_else(|| mounts(before, after))
}

fn differing(before: &Map<String, Value>, after: &Map<String, Value>, edited: &[&str]) -> Option<String> {
    let keys = before.keys().chain(after.keys()).filter(|key| !edited.contains(&key.as_str()));
    keys.into_iter().find(|key| before.get(*key) != after.get(*key)).cloned()
}

fn annotations(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let kept = object(after, "annotations");
    let given = object(before, "annotations").into_iter().flatten();
    given
        .filter(|(key, value)| kept.and_then(|kept| kept.get(*key)) != Some(value))
        .map(|(key, _)| format!("annotations.{key}"))
        .next()
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

/// Every namespace stays, and one of users comes to them. That of the network may have been joined already:
/// then it was one to be joined.
fn namespaces(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let kind = |space: &Value| space.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (given, kept) = (items(before, "namespaces"), items(after, "namespaces"));
    if kept.iter().filter(|space| kind(space) == "user").count() != 1 {
        return Some("namespaces (user)".to_owned());
    }
    let joined = |space: &Value| kind(space) == "network" && space.get("path").is_some_and(|path| path != "");
    let lost = given.iter().filter(|space| kind(space) != "user" && !kept.contains(space));
    let lost = lost.filter(|space| !joined(space) || kept.iter().any(|other| kind(other) == kind(space)));
    let added = kept.iter().filter(|space| kind(space) != "user" && !given.contains(space));
    lost.chain(added).next().map(|space| format!("namespaces ({})", kind(space)))
}

/// No map reaches the host's own IDs.
fn maps(after: &Map<String, Value>) -> Option<String> {
    ["uidMappings", "gidMappings"].into_iter().find_map(|name| {
        let on_host =
            |line: &Value| line.get("hostID").and_then(Value::as_u64).is_none_or(|id| id < ids::UNIT);
        items(after, name).iter().any(on_host).then(|| name.to_owned())
    })
}

/// Those of the network may be gone, since they were made already; none is new and none but theirs is
/// another.
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

/// Every mount stays where it is, with what restricts it; new are only the devices that were given.
fn mounts(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let (given, kept) = (items(before, "mounts"), items(after, "mounts"));
    let place =
        |mount: &Value| mount.get("destination").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kept.len() < given.len() {
        return Some("mounts".to_owned());
    }
    let loosened = |(given, kept): &(&Value, &Value)| place(given) != place(kept) || !restricts(given, kept);
    if let Some((mount, _)) = given.iter().zip(kept).find(loosened) {
        return Some(format!("mounts ({})", place(mount)));
    }
    let none = Map::new();
    let devices = items(object(before, "linux").unwrap_or(&none), "devices");
    let is_device =
        |mount: &&Value| devices.iter().any(|device| device.get("path") == mount.get("destination"));
    kept.iter()
        .skip(given.len())
        .find(|mount| !is_device(mount))
        .map(|mount| format!("mounts ({})", place(mount)))
}

fn restricts(given: &Value, kept: &Value) -> bool {
    let options = |mount: &Value| -> Vec<String> {
        let all = mount.get("options").and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (given, kept) = (options(given), options(kept));
    let has = |names: &[&str]| kept.iter().any(|option| names.contains(&option.as_str()));
    RESTRICTING.iter().all(|(name, instead)| !given.iter().any(|option| option == name) || has(instead))
}

fn object<'a>(of: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    of.get(key).and_then(Value::as_object)
}

fn items<'a>(of: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
