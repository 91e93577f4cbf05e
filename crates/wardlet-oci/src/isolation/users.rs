//! Writes the user namespace into a configuration.

use std::path::Path;

use ids::{IdMapping, IdMappings};
use serde_json::{Map, Value, json};

use super::network::Network;
use super::{JoinOrder, MappingsWithPath, Order, Result, json};

/// Adds the pod's user namespace to the configuration, by `path` if it exists already, and removes the network
/// namespace if the runtime could not join it from there.
pub(super) fn put(
    order: &Order,
    path: Option<&Path>,
    network: &Network,
    linux: &mut Map<String, Value>,
) -> Result<()> {
    let namespaces = json::list(linux, "namespaces")?;
    let kind = |namespace: &Value| namespace.get("type").and_then(Value::as_str).map(str::to_owned);
    namespaces.retain(|namespace| kind(namespace).as_deref() != Some("user"));
    if joined_before(order, network) {
        namespaces.retain(|namespace| kind(namespace).as_deref() != Some("network"));
    }
    namespaces.push(match path {
        Some(path) => json!({ "type": "user", "path": path }),
        None => json!({ "type": "user" }),
    });
    if path.is_none() || order.runtime.mappings_with_path == MappingsWithPath::Wanted {
        put_maps(&order.ids, linux);
    }
    Ok(())
}

/// Whether this process must join the pod's network namespace before the runtime runs.
pub(super) fn joined_before(order: &Order, network: &Network) -> bool {
    order.runtime.joins == JoinOrder::UsersFirst && !matches!(network, Network::Pods)
}

fn put_maps(ids: &IdMappings, linux: &mut Map<String, Value>) {
    linux.insert("uidMappings".to_owned(), lines(&ids.uids));
    linux.insert("gidMappings".to_owned(), lines(&ids.gids));
}

fn lines(maps: &[IdMapping]) -> Value {
    let line = |line: &IdMapping| {
        json!({
            "containerID": line.container().get(),
            "hostID": line.host().first(),
            "size": line.length(),
        })
    };
    maps.iter().map(line).collect()
}
