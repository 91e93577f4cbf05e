//! Refuses configurations that are not possible with a user namespace, each with its reason, so that no container runs
//! with a part that silently does not work.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{Refusal, capabilities, devices, spaces};
use crate::isolation::RuntimeKind;

/// A container to check.
pub struct Subject<'a> {
    /// Its configuration.
    pub spec: &'a Value,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// The number of IDs of its pod, from 0 up.
    pub ids: u64,
    /// The runtime that runs it.
    pub runtime: RuntimeKind,
}

/// Checks the whole configuration. The error is the first refusal: namespaces, devices, capabilities, mounts, users.
pub fn check(subject: &Subject<'_>) -> crate::Result<()> {
    spaces::check(subject.spec, Path::new("/proc/self/ns"))?;
    devices::check(subject.spec)?;
    capabilities::check(subject)?;
    mounts(subject.spec)?;
    users(subject)?;
    Ok(())
}

/// Refuses mounts that propagate to the host, and writable cgroup mounts without a cgroup namespace.
fn mounts(spec: &Value) -> Result<(), Refusal> {
    let propagation = spec.pointer("/linux/rootfsPropagation").and_then(Value::as_str).unwrap_or_default();
    let mounts = list(spec, "/mounts");
    let own_groups = list(spec, "/linux/namespaces").any(|space| text(space, "type") == "cgroup");
    for (at, mount) in mounts.enumerate() {
        let options: Vec<&str> = mount
            .get("options")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let place = text(mount, "destination");
        if options.iter().any(|option| ["shared", "rshared"].contains(option)) {
            let field = format!("mounts[{at}] ({place})");
            let cause = "mountPropagation Bidirectional is not possible from a user namespace";
            return Err(Refusal::hinted(field, cause, "use HostToContainer, or remove the annotation"));
        }
        let groups = ["cgroup", "cgroup2"].contains(&text(mount, "type"));
        if groups && !own_groups && !options.contains(&"ro") {
            let field = format!("mounts[{at}] ({place})");
            let cause = "the host's control groups cannot be written to from a user namespace";
            return Err(Refusal::hinted(
                field,
                cause,
                "mount them read-only, or give the pod a cgroup namespace",
            ));
        }
    }
    if propagation == "shared" {
        let cause = "propagation \"shared\" to the host is not possible from a user namespace";
        return Err(Refusal::hinted("linux.rootfsPropagation", cause, "leave it out, or use rslave"));
    }
    Ok(())
}

/// Refuses user and group IDs that are not in the pod's ID mappings.
fn users(subject: &Subject<'_>) -> Result<(), Refusal> {
    let user = subject.spec.pointer("/process/user");
    let own = ["uid", "gid"].into_iter().filter_map(|name| Some((name, user?.get(name)?)));
    let more = user.and_then(|user| user.get("additionalGids")).and_then(Value::as_array);
    let more = more.into_iter().flatten().map(|gid| ("additionalGids", gid));
    for (name, id) in own.chain(more) {
        if id.as_u64().is_none_or(|id| id >= subject.ids) {
            let cause = format!("{id} is not among the pod's {} IDs", subject.ids);
            let hint = format!("use a smaller one, or ask for more IDs with {}", types::keys::IDS);
            return Err(Refusal::hinted(format!("process.user.{name}"), cause, hint));
        }
    }
    Ok(())
}

pub(super) fn list<'a>(spec: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    spec.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
