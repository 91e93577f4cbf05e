//! Checks that an edited configuration refers only to what was prepared for this pod.

use std::path::Path;

use ids::{IdMapping, IdMappings};
use serde_json::{Map, Value, json};

use super::{items, object, path};

/// The first part of `after` that refers to something else, if there is one: ID mappings that are not the pod's, or a
/// root filesystem, a user namespace or a changed mount source outside of `stage`.
#[must_use]
pub fn foreign_reference(before: &Value, after: &Value, ids: &IdMappings, stage: &Path) -> Option<String> {
    let none = Map::new();
    let (before, after) = (before.as_object()?, after.as_object()?);
    let is_ours = |path: Option<&str>| path.is_some_and(|path| is_below(Path::new(path), stage));
    let root = object(after, "root").unwrap_or(&none);
    if !is_ours(root.get("path").and_then(Value::as_str)) {
        return Some("root.path".to_owned());
    }
    let linux = object(after, "linux").unwrap_or(&none);
    let maps = [("uidMappings", &ids.uids), ("gidMappings", &ids.gids)];
    let other = maps
        .into_iter()
        .find(|(name, lines)| linux.contains_key(*name) && linux.get(*name) != Some(&of(lines)));
    if let Some((name, _)) = other {
        return Some(format!("linux.{name}"));
    }
    let spaces = items(linux, "namespaces").iter();
    let users = |space: &&Value| space.get("type").is_some_and(|kind| kind == "user");
    if spaces.filter(users).any(|space| path(space).is_some() && !is_ours(path(space))) {
        return Some("linux.namespaces (user)".to_owned());
    }
    let given = items(before, "mounts");
    let source = |mount: &Value| mount.get("source").and_then(Value::as_str).map(str::to_owned);
    let mounts = items(after, "mounts").iter().enumerate();
    let mut new =
        mounts.filter(|(at, mount)| given.get(*at).is_none_or(|given| source(given) != source(mount)));
    let (at, _) = new.find(|(_, mount)| !is_ours(source(mount).as_deref()))?;
    Some(format!("mounts[{at}].source"))
}

/// Whether a path is below `stage` and has no `..`.
fn is_below(path: &Path, stage: &Path) -> bool {
    path != stage && path.starts_with(stage) && path.components().all(|part| part.as_os_str() != "..")
}

fn of(lines: &[IdMapping]) -> Value {
    let line = |line: &IdMapping| json!({"containerID": line.container().get(), "hostID": line.host().first(), "size": line.length()});
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> IdMappings {
        let line = vec![IdMapping::new(0, 131_072, 65_536).unwrap()];
        IdMappings { uids: line.clone(), gids: line }
    }

    fn given() -> Value {
        json!({"root": {"path": "rootfs"}, "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/d", "type": "bind", "source": "/volumes/d"},
        ]})
    }

    fn edited() -> Value {
        let line = json!([{"containerID": 0, "hostID": 131_072, "size": 65_536}]);
        json!({
            "root": {"path": "/run/stage/rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/d", "type": "bind", "source": "/run/stage/1"},
                {"destination": "/dev/x", "type": "bind", "source": "/run/stage/devices/2"},
            ],
            "linux": {"uidMappings": line, "gidMappings": line,
                "namespaces": [{"type": "user", "path": "/run/stage/userns"}, {"type": "network", "path": "/n"}]},
        })
    }

    fn found(change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut after = edited();
        change(&mut after);
        foreign_reference(&given(), &after, &ids(), Path::new("/run/stage"))
    }

    #[test]
    fn what_was_made_for_the_pod_is_what_it_gets() {
        assert_eq!(found(|_| ()), None);
        assert_eq!(found(|spec| spec["linux"] = json!({"namespaces": [{"type": "user"}]})), None);
        assert_eq!(
            found(|spec| spec["mounts"][1]["source"] = json!("/volumes/d")),
            None,
            "as the caller had it"
        );
    }

    #[test]
    fn another_pods_block_and_other_files_are_noticed() {
        let users = |value: Value| found(|spec| spec["linux"]["uidMappings"][0]["hostID"] = value);
        assert_eq!(users(json!(196_608)).unwrap(), "linux.uidMappings");
        let groups = found(|spec| spec["linux"]["gidMappings"][0]["size"] = json!(131_072));
        assert_eq!(groups.unwrap(), "linux.gidMappings");
        let more = found(|spec| {
            let line = json!({"containerID": 65_536, "hostID": 0, "size": 1});
            spec["linux"]["uidMappings"].as_array_mut().unwrap().push(line);
        });
        assert_eq!(more.unwrap(), "linux.uidMappings");
        for root in [json!("/"), json!("/run/stage"), json!("/run/stage/../x"), json!("rootfs"), json!(null)]
        {
            assert_eq!(found(|spec| spec["root"]["path"] = root).unwrap(), "root.path");
        }
        let joined = found(|spec| spec["linux"]["namespaces"][0]["path"] = json!("/proc/1/ns/user"));
        assert_eq!(joined.unwrap(), "linux.namespaces (user)");
        for at in [0, 1, 2] {
            let source = found(|spec| spec["mounts"][at]["source"] = json!("/etc"));
            assert_eq!(source.unwrap(), format!("mounts[{at}].source"));
        }
    }
}
