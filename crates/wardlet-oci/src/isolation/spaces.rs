//! IPC and UTS namespaces that the caller has created, as CRI-O does. The host's user namespace owns them, so that no
//! process of the pod could mount its message queues or set its host name. The pod gets its own instead: the runtime
//! creates them with the sandbox, and the other containers join them.

use std::path::{Path, PathBuf};

use kernel::{Namespace, NamespaceKind, Process};
use serde_json::{Map, Value, json};

use super::{Order, Result, Role, json};

const KINDS: [NamespaceKind; 2] = [NamespaceKind::Ipc, NamespaceKind::Uts];

/// Replaces IPC and UTS namespaces in the configuration that the pod cannot use by the pod's own. `users` is the path
/// at which the user namespace to join is pinned; the others are pinned in the same directory.
pub(super) fn put(order: &Order, users: Option<&Path>, linux: &mut Map<String, Value>) -> Result<()> {
    if !order.runtime.kind.joins_users() {
        return Ok(());
    }
    for space in json::list(linux, "namespaces")? {
        // The runtime refuses a namespace that cannot be opened.
        let Some(kind) = kind(space).filter(|kind| cannot_serve(space, *kind).unwrap_or(false)) else {
            continue;
        };
        let Some(space) = space.as_object_mut() else { continue };
        match (&order.role, users) {
            (Role::Inherit { init }, Some(users)) => {
                space.insert("path".to_owned(), json!(pin(*init, users, kind)?));
            }
            _ => drop(space.remove("path")),
        }
    }
    Ok(())
}

fn kind(space: &Value) -> Option<NamespaceKind> {
    let named = space.get("type").and_then(Value::as_str)?;
    KINDS.into_iter().find(|kind| kind.file() == named)
}

/// Whether it is an existing namespace, not the host's, that the host's user namespace owns.
fn cannot_serve(space: &Value, kind: NamespaceKind) -> Result<bool> {
    let Some(path) = space.get("path").and_then(Value::as_str).filter(|path| !path.is_empty()) else {
        return Ok(false);
    };
    let (given, own) = (Namespace::open(Path::new(path))?, Process::own()?);
    let hosts = own.namespace(NamespaceKind::User)?.id();
    Ok(given.kind() == kind
        && given.id() != own.namespace(kind)?.id()
        && given.owner()?.is_none_or(|owner| owner.id() == hosts))
}

/// Pins the namespace of the sandbox. The pod's user namespace must own it: another process could have this PID by now.
fn pin(init: u32, users: &Path, kind: NamespaceKind) -> Result<PathBuf> {
    let pods = Process::open(init)?.namespace(kind)?;
    let users_id = Namespace::open(users)?.id();
    if pods.owner()?.is_none_or(|owner| owner.id() != users_id) {
        return Err(json::wrong(
            "linux.namespaces",
            "the pod's sandbox has no IPC or UTS namespace of its own to join",
        ));
    }
    let path = users.with_file_name(kind.file());
    pods.pin(&path)?;
    Ok(path)
}
