//! Namespaces for messages and names that the caller has made, as CRI-O does. They belong to the host's users, so that
//! nobody in the pod could mount its message queues or set its name: the pod has its own instead, made with its first
//! container and joined by the others.

use std::path::{Path, PathBuf};

use kernel::{Namespace, NamespaceKind, Process};
use serde_json::{Map, Value, json};

use super::{Order, Result, Role, json};

const KINDS: [NamespaceKind; 2] = [NamespaceKind::Ipc, NamespaceKind::Uts];

/// Puts the pod's own into the configuration where the caller's cannot serve it. `users` is the pin of the user namespace
/// that is joined; the others are pinned beside it.
pub(super) fn put(order: &Order, users: Option<&Path>, linux: &mut Map<String, Value>) -> Result<()> {
    if !order.runtime.kind.joins_users() {
        return Ok(());
    }
    for space in json::list(linux, "namespaces")? {
        // One that cannot be opened is the runtime's to refuse.
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

/// Whether it is one to be joined that is neither the host's own nor the pod's users'.
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

/// The first container's, which has to belong to the pod's users: the number of a process may be another's by now.
fn pin(init: u32, users: &Path, kind: NamespaceKind) -> Result<PathBuf> {
    let pods = Process::open(init)?.namespace(kind)?;
    let users_id = Namespace::open(users)?.id();
    if pods.owner()?.is_none_or(|owner| owner.id() != users_id) {
        return Err(json::wrong(
            "linux.namespaces",
            "the pod's first container has none of its own to be joined",
        ));
    }
    let path = users.with_file_name(kind.file());
    pods.pin(&path)?;
    Ok(path)
}
