//! A configuration as one engine or the other wants it.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::{MountEntry, MountTable, Namespace};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Where cgroups are, by custom.
const GROUPS: &str = "/sys/fs/cgroup";

/// With a home: an engine that finds none would ask the container's own libraries for it.
pub(super) fn with_home(mut config: Value) -> Value {
    let env = config.pointer_mut("/process/env").and_then(Value::as_array_mut);
    if let Some(env) = env {
        let has = env.iter().any(|entry| entry.as_str().is_some_and(|entry| entry.starts_with("HOME=")));
        if !has {
            env.push(json!("HOME=/"));
        }
    }
    config
}

/// With these mounts alone, and without devices, program and environment: all that is attached already, or is done by
/// the last step.
pub(super) fn with_mounts(mut config: Value, mounts: Vec<Value>) -> Value {
    if let Some(config) = config.as_object_mut() {
        config.insert("mounts".to_owned(), Value::Array(mounts));
    }
    if let Some(linux) = config.get_mut("linux").and_then(Value::as_object_mut) {
        linux.remove("devices");
    }
    if let Some(process) = config.get_mut("process").and_then(Value::as_object_mut) {
        process.insert("args".to_owned(), json!(["/"]));
        process.insert("env".to_owned(), json!(["HOME=/"]));
    }
    config
}

/// For the built-in engine, which
/// - takes `noNewPrivileges: false` for a wish to set the filter after the capabilities are gone,
/// - sets limits when it may no longer raise them: room is made for them from here,
/// - knows `slave`, which means all below as well, and not `rslave`,
/// - gives a label of mounts to message queues as well, which the kernel refuses,
/// - opens namespaces when it may no longer reach their paths: they are held open here,
/// - leaves hierarchies of cgroups writable that are asked for read-only, unless there is but one: each
///   is sealed as a path,
/// - makes no group in hierarchies without a controller (`name=systemd`), and shows all of them: they are masked,
/// - mounts cgroups of version 1 only if the host has a process with the number that the container's first process has
///   in the PID namespace that it joins: then these directories of its own, one in each hierarchy, are bound instead.
pub(super) fn for_built_in<'a>(
    mut config: Value,
    held: &mut Vec<OwnedFd>,
    own_groups: impl Iterator<Item = &'a Path>,
) -> Result<Value, Failure> {
    if let Some(process) = config.get_mut("process").and_then(Value::as_object_mut) {
        if process.get("noNewPrivileges") == Some(&json!(false)) {
            process.remove("noNewPrivileges");
        }
        process.remove("rlimits");
    }
    if let Some(travel) = config.pointer_mut("/linux/rootfsPropagation")
        && let Some(bare) = travel.as_str().and_then(|name| name.strip_prefix('r')).map(str::to_owned)
    {
        *travel = json!(bare);
    }
    label_mounts(&mut config);
    let table = MountTable::read()?;
    mask_named(&mut config, &hierarchies(&table, named));
    seal_groups(&mut config, &hierarchies(&table, |_| true));
    if joins_pid_namespace(&config) {
        bind_groups(
            &mut config,
            &hierarchies(&table, |mount| mount.filesystem == "cgroup" && !named(mount)),
            own_groups,
        );
    }
    let namespaces = config.pointer_mut("/linux/namespaces").and_then(Value::as_array_mut);
    for namespace in namespaces.into_iter().flatten() {
        let Some(path) = namespace.get("path").and_then(Value::as_str) else { continue };
        let fd = hold(Path::new(path))?;
        let by_number = format!("/proc/self/fd/{}", fd.as_raw_fd());
        held.push(fd);
        if let Some(namespace) = namespace.as_object_mut() {
            namespace.insert("path".to_owned(), json!(by_number));
        }
    }
    Ok(config)
}

/// The label of all mounts as an option of those that the kernel takes it for, in a user namespace as well. Each option
/// is given to the kernel by itself: quotes, which the commas of categories need elsewhere, would be part of the label.
fn label_mounts(config: &mut Value) {
    let linux = config.get_mut("linux").and_then(Value::as_object_mut);
    let Some(Value::String(label)) = linux.and_then(|linux| linux.remove("mountLabel")) else { return };
    let mounts = config.get_mut("mounts").and_then(Value::as_array_mut);
    for mount in mounts.into_iter().flatten().filter_map(Value::as_object_mut) {
        if !matches!(mount.get("type").and_then(Value::as_str), Some("tmpfs" | "devpts")) {
            continue;
        }
        let option = json!(format!("context={label}"));
        match mount.entry("options").or_insert_with(|| json!([])) {
            Value::Array(options) => options.push(option),
            none => *none = json!([option]),
        }
    }
}

/// The names of those hierarchies below the usual place; with one for all there is none.
fn hierarchies(table: &MountTable, which: impl Fn(&MountEntry) -> bool) -> BTreeSet<PathBuf> {
    let groups = table.iter().filter(|mount| matches!(mount.filesystem.as_str(), "cgroup" | "cgroup2"));
    let names = groups.filter(|mount| which(mount)).filter_map(|mount| mount.point.strip_prefix(GROUPS).ok());
    names.filter(|name| !name.as_os_str().is_empty()).map(Path::to_owned).collect()
}

/// Whether it has a name instead of a controller.
fn named(mount: &MountEntry) -> bool {
    mount.filesystem == "cgroup" && mount.super_options.iter().any(|option| option.starts_with("name="))
}

fn is_read_only_cgroup(mount: &Value) -> bool {
    let options = mount.get("options").and_then(Value::as_array);
    mount.get("type") == Some(&json!("cgroup")) && options.is_some_and(|all| all.contains(&json!("ro")))
}

fn cgroup_target(config: &Value) -> Option<PathBuf> {
    let mounts = config.get("mounts").and_then(Value::as_array);
    let mount = mounts.and_then(|mounts| mounts.iter().find(|mount| is_read_only_cgroup(mount)));
    mount.and_then(|mount| mount.get("destination")).and_then(Value::as_str).map(PathBuf::from)
}

fn add_paths(config: &mut Value, list: &str, paths: Vec<Value>) {
    let Some(linux) = config.get_mut("linux").and_then(Value::as_object_mut) else { return };
    match linux.entry(list).or_insert_with(|| json!([])) {
        Value::Array(known) => known.extend(paths),
        none => *none = Value::Array(paths),
    }
}

/// A container that may change cgroups sees all of them.
fn mask_named(config: &mut Value, hierarchies: &BTreeSet<PathBuf>) {
    let Some(target) = cgroup_target(config) else { return };
    add_paths(config, "maskedPaths", hierarchies.iter().map(|name| json!(target.join(name))).collect());
}

/// The place itself before what is mounted in it.
fn seal_groups(config: &mut Value, hierarchies: &BTreeSet<PathBuf>) {
    let (Some(target), false) = (cgroup_target(config), hierarchies.is_empty()) else { return };
    let below = hierarchies.iter().map(|name| target.join(name));
    let paths = std::iter::once(target.clone()).chain(below).map(|path| json!(path)).collect();
    add_paths(config, "readonlyPaths", paths);
}

fn joins_pid_namespace(config: &Value) -> bool {
    let namespaces = config.pointer("/linux/namespaces").and_then(Value::as_array);
    let joined = |space: &Value| space.get("type") == Some(&json!("pid")) && space.get("path").is_some();
    namespaces.is_some_and(|all| all.iter().any(joined))
}

/// Mounts the container's own directory of each hierarchy with controllers where all of them are asked for.
fn bind_groups<'a>(
    config: &mut Value,
    hierarchies: &BTreeSet<PathBuf>,
    own_groups: impl Iterator<Item = &'a Path>,
) {
    let mounts = config.get_mut("mounts").and_then(Value::as_array_mut);
    let Some(mounts) = mounts.filter(|_| !hierarchies.is_empty()) else { return };
    let Some(place) = mounts.iter().position(|mount| mount.get("type") == Some(&json!("cgroup"))) else {
        return;
    };
    let all = mounts.remove(place);
    let Some(target) = all.get("destination").and_then(Value::as_str).map(Path::new) else { return };
    let options = ["nosuid", "noexec", "nodev", "mode=755"];
    let parent = json!({ "type": "tmpfs", "source": "tmpfs", "destination": target, "options": options });
    let bound = own_groups.filter_map(|dir| {
        let below = dir.strip_prefix(GROUPS).ok()?;
        let name = hierarchies.iter().find(|name| below.starts_with(name))?;
        let options = ["bind", "nosuid", "noexec", "nodev"];
        Some(json!({ "type": "bind", "source": dir, "destination": target.join(name), "options": options }))
    });
    mounts.splice(place..place, std::iter::once(parent).chain(bound));
}

/// Removes these namespaces, which the calling process has joined, from the configuration, and returns their paths.
pub(super) fn take_namespaces(config: &mut Value, kinds: &[&str]) -> Vec<PathBuf> {
    let mut taken = Vec::new();
    let namespaces = config.pointer_mut("/linux/namespaces").and_then(Value::as_array_mut);
    if let Some(namespaces) = namespaces {
        namespaces.retain(|namespace| {
            let is = |kind: &&&str| namespace.get("type").and_then(Value::as_str) == Some(**kind);
            let path = namespace.get("path").and_then(Value::as_str).filter(|_| kinds.iter().any(|k| is(&k)));
            taken.extend(path.map(PathBuf::from));
            path.is_none()
        });
    }
    taken
}

/// Has a user namespace that exists already instead of a new one.
pub(super) fn with_users(config: &mut Value, users: &OwnedFd) {
    let namespaces = config.pointer_mut("/linux/namespaces").and_then(Value::as_array_mut);
    for namespace in namespaces.into_iter().flatten().filter_map(Value::as_object_mut) {
        if namespace.get("type") == Some(&json!("user")) && !namespace.contains_key("path") {
            namespace.insert("path".to_owned(), json!(format!("/proc/self/fd/{}", users.as_raw_fd())));
        }
    }
}

fn hold(path: &Path) -> Result<OwnedFd, Failure> {
    let namespace = Namespace::open(path)?;
    let fd = std::os::fd::AsFd::as_fd(&namespace).try_clone_to_owned();
    fd.map_err(|cause| Failure::during(&format!("cannot hold {}", path.display()), cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_added_only_where_there_is_none() {
        let env = |words: &[&str]| {
            let config = with_home(json!({ "process": { "env": words } }));
            config.pointer("/process/env").unwrap().to_string()
        };
        assert_eq!(env(&["A=b"]), r#"["A=b","HOME=/"]"#);
        assert_eq!(env(&["HOME=/root"]), r#"["HOME=/root"]"#);
    }

    #[test]
    fn the_built_in_engine_gets_what_it_does_right() {
        let config = json!({
            "process": { "noNewPrivileges": false, "rlimits": [{}] },
            "linux": { "rootfsPropagation": "rslave", "namespaces": [{ "type": "network", "path": "/proc/self/ns/net" }, { "type": "user" }] },
        });
        let mut held = Vec::new();
        let mut adapted = for_built_in(config, &mut held, std::iter::empty()).unwrap();
        with_users(&mut adapted, &held[0]);
        let path = format!("/proc/self/fd/{}", held[0].as_raw_fd());
        assert_eq!(adapted["linux"]["rootfsPropagation"], json!("slave"));
        assert_eq!(adapted["process"], json!({}));
        assert_eq!(adapted["linux"]["namespaces"][0]["path"], json!(path));
        assert_eq!(adapted["linux"]["namespaces"][1]["path"], json!(path));
    }

    #[test]
    fn a_label_of_mounts_is_given_where_the_kernel_takes_it() {
        let mut config = json!({
            "linux": { "mountLabel": "u:object_r:f:s0:c1,c2" },
            "mounts": [{ "type": "tmpfs", "options": ["mode=755"] }, { "type": "devpts" }, { "type": "mqueue" }],
        });
        label_mounts(&mut config);
        let context = "context=u:object_r:f:s0:c1,c2";
        assert_eq!(config["mounts"][0]["options"], json!(["mode=755", context]));
        assert_eq!(config["mounts"][1]["options"], json!([context]));
        assert_eq!((&config["mounts"][2], &config["linux"]), (&json!({ "type": "mqueue" }), &json!({})));
    }

    #[test]
    fn a_container_in_a_joined_pid_namespace_gets_its_own_groups_of_each_hierarchy() {
        let mount = json!({ "type": "cgroup", "destination": "/sys/fs/cgroup", "options": ["ro"] });
        let mut config = json!({ "mounts": [{ "type": "proc" }, mount, { "type": "mqueue" }] });
        let dirs = ["/sys/fs/cgroup/cpu/pod/one", "/sys/fs/cgroup/unified/pod/one"].map(PathBuf::from);
        let own = || dirs.iter().map(PathBuf::as_path);
        let before = config.clone();
        bind_groups(&mut config, &BTreeSet::new(), own());
        assert_eq!(config, before);
        bind_groups(&mut config, &["cpu", "memory"].map(PathBuf::from).into(), own());
        let seen = ["type", "source", "destination"].map(|name| {
            let mounts = config["mounts"].as_array().unwrap().iter();
            mounts.map(|mount| mount[name].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>()
        });
        assert_eq!(seen[0], ["proc", "tmpfs", "bind", "mqueue"]);
        assert_eq!(seen[1], ["", "tmpfs", "/sys/fs/cgroup/cpu/pod/one", ""]);
        assert_eq!(seen[2], ["", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu", ""]);
    }

    #[test]
    fn every_hierarchy_is_sealed_that_is_asked_for_read_only() {
        let names = ["cpu", "memory"].map(PathBuf::from).into();
        let sealed = |access: &str, names: &BTreeSet<PathBuf>| {
            let mount =
                json!({ "type": "cgroup", "destination": "/sys/fs/cgroup", "options": ["nosuid", access] });
            let mut config = json!({ "mounts": [mount], "linux": { "readonlyPaths": ["/proc/sys"] } });
            seal_groups(&mut config, names);
            config["linux"]["readonlyPaths"].clone()
        };
        let all = json!(["/proc/sys", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"]);
        assert_eq!(sealed("ro", &names), all);
        assert_eq!(sealed("rw", &names), json!(["/proc/sys"]));
        assert_eq!(sealed("ro", &BTreeSet::new()), json!(["/proc/sys"]));
    }
}
