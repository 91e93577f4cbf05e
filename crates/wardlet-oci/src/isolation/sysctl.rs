//! Sets sysctls of a network namespace that the pod's user namespace does not own: the runtime cannot set them from
//! inside.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use ids::IdMappings;
use serde_json::{Map, Value};

use super::network::Network;
use super::{Error, Order, Result, Role, json};

const PING: &str = "net/ipv4/ping_group_range";
/// The maximum of a group ID in this sysctl; groups themselves can have greater IDs.
const MOST_FOR_PING: u32 = i32::MAX.unsigned_abs();

/// Sets the network sysctls of a pod and removes them from its configuration. The sandbox gets two more, which allow
/// every user to bind every port and to use ping.
pub(super) fn apply(order: &Order, network: &Network, linux: &mut Map<String, Value>) -> Result<()> {
    let namespace = match network {
        Network::Host => return Ok(()),
        Network::Pods => return cut(order, linux),
        Network::Foreign(namespace) => namespace,
    };
    let given = take(linux)?;
    let settings = match order.role {
        Role::Sandbox => container::sysctl::for_pod(&given, Some(&order.ids)),
        Role::Inherit { .. } => given,
    };
    let visit = kernel::NetworkVisit::to(namespace)?;
    for (name, value) in &settings {
        let failed = |cause| Error::Sysctl { name: name.clone(), value: value.clone(), cause };
        let file = file(name).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
        if let Some(value) = outside(&file, value, &order.ids) {
            let open = OpenOptions::new().write(true).open(Path::new("/proc/sys").join(&file));
            open.and_then(|mut open| open.write_all(value.as_bytes())).map_err(failed)?;
        }
    }
    Ok(visit.leave()?)
}

/// Limits the ping groups to those in the ID mappings. The pod's user namespace owns the network namespace here, and so
/// the runtime sets the sysctls.
fn cut(order: &Order, linux: &mut Map<String, Value>) -> Result<()> {
    let mut given = take(linux)?;
    let fit = container::sysctl::for_pod(&given, Some(&order.ids));
    for (name, value) in &mut given {
        if let Some(fit) = fit.get(name) {
            value.clone_from(fit);
        }
    }
    if !given.is_empty() {
        let values = given.into_iter().map(|(name, value)| (name, Value::String(value)));
        json::object(linux, "sysctl")?.extend(values);
    }
    Ok(())
}

/// Removes the network sysctls from a configuration and returns them; the others stay.
fn take(linux: &mut Map<String, Value>) -> Result<BTreeMap<String, String>> {
    let Some(Value::Object(all)) = linux.get_mut("sysctl") else { return Ok(BTreeMap::new()) };
    let names: Vec<String> = all.keys().filter(|name| of_networks(name)).cloned().collect();
    let mut taken = BTreeMap::new();
    for name in names {
        match all.remove(&name) {
            Some(Value::String(value)) => drop(taken.insert(name, value)),
            _ => return Err(json::wrong("linux.sysctl", "a value is not a string")),
        }
    }
    Ok(taken)
}

fn of_networks(name: &str) -> bool {
    name.starts_with("net.") || name.starts_with("net/")
}

/// The file of a sysctl below `/proc/sys/`. The separator is a dot, or a slash; with slashes, a dot is part of a name.
fn file(name: &str) -> Option<PathBuf> {
    let slashes = name.chars().find(|letter| matches!(letter, '.' | '/')) == Some('/');
    let path = if slashes {
        name.to_owned()
    } else {
        name.chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect()
    };
    let path = PathBuf::from(path);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && path.starts_with("net")).then_some(path)
}

/// The value as the host's root has to write it: with host group IDs. `None` if these are beyond the kernel's maximum;
/// the sysctl is not changed then, and no group may use ping.
fn outside(file: &Path, value: &str, ids: &IdMappings) -> Option<String> {
    if file != Path::new(PING) {
        return Some(value.to_owned());
    }
    let ends: Option<Vec<u32>> = value.split_whitespace().map(|end| end.parse().ok()).collect();
    match ends.as_deref() {
        Some(&[low, high]) if low <= high => match (ids.host_group(low), ids.host_group(high)) {
            (Some(low), Some(high)) if high <= MOST_FOR_PING => Some(format!("{low}\t{high}")),
            _ => None,
        },
        _ => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use ids::IdMapping;

    use super::*;

    fn ids(host: u64) -> IdMappings {
        let line = IdMapping::new(0, host, 65_536).unwrap();
        IdMappings { uids: vec![line], gids: vec![line] }
    }

    #[test]
    fn a_name_is_a_file_of_networks_and_of_nothing_else() {
        let found = |name| file(name).map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(found("net.core.somaxconn").as_deref(), Some("net/core/somaxconn"));
        assert_eq!(
            found("net/ipv4/conf/eth0.1/rp_filter").as_deref(),
            Some("net/ipv4/conf/eth0.1/rp_filter")
        );
        assert_eq!(
            found("net.ipv4.conf.eth0/1.rp_filter").as_deref(),
            Some("net/ipv4/conf/eth0.1/rp_filter")
        );
        for name in ["net/../kernel/core_pattern", "kernel.shmmax", "net.ipv4.//./..x", "/net/core/somaxconn"]
        {
            let path = file(name);
            assert!(
                path.is_none_or(|path| path.starts_with("net") && !path.to_str().unwrap().contains("/../"))
            );
        }
        assert_eq!(file("net/../kernel/core_pattern"), None);
        assert_eq!(file("kernel.shmmax"), None);
    }

    #[test]
    fn the_groups_that_may_ping_are_the_hosts_numbers_of_them() {
        let written = |value, host| outside(Path::new(PING), value, &ids(host));
        assert_eq!(written("0\t65535", 1 << 20).as_deref(), Some("1048576\t1114111"));
        assert_eq!(written("100 100", 1 << 20).as_deref(), Some("1048676\t1048676"));
        assert_eq!(written("1\t0", 1 << 20).as_deref(), Some("1\t0"));
        assert_eq!(written("0\t65535", 1 << 31), None);
        assert_eq!(outside(Path::new("net/core/somaxconn"), "0 5", &ids(1 << 20)).as_deref(), Some("0 5"));
    }

    #[test]
    fn only_settings_of_networks_are_taken_out() {
        let mut linux = serde_json::json!({"sysctl": {"net.core.somaxconn": "5", "kernel.shmmax": "1"}});
        let linux = linux.as_object_mut().unwrap();
        assert_eq!(take(linux).unwrap(), BTreeMap::from([("net.core.somaxconn".into(), "5".into())]));
        assert_eq!(linux["sysctl"], serde_json::json!({"kernel.shmmax": "1"}));
        linux.insert("sysctl".into(), serde_json::json!({"net.x": 5}));
        assert!(take(linux).is_err());
    }
}
