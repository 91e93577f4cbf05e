//! Which network a container is in, and what of it is not its own to mount or to set.

use std::path::Path;

use kernel::{
    Access, DetachedMount, Filesystem, FilesystemKind, Flags, Kernel, Namespace, NamespaceKind, NetworkVisit,
    Process,
};
use serde_json::Value;

use super::{Result, json};

/// The network of a container, by who has power over it.
#[derive(Debug)]
pub(super) enum Network {
    /// The host's.
    Host,
    /// One that is the pod's users': the runtime can do with it what it always does.
    Pods,
    /// One of the pod's alone that belongs to the host's users, as containerd and CNI make it.
    Foreign(Namespace),
}

impl Network {
    /// That of a configuration.
    pub(super) fn of(spec: &Value) -> Result<Self> {
        let Some(entry) = entry(spec) else { return Ok(Self::Host) };
        let path = match entry.get("path") {
            None | Some(Value::Null) => return Ok(Self::Pods),
            Some(Value::String(path)) if path.is_empty() => return Ok(Self::Pods),
            Some(_) => json::text(entry, "path")?,
        };
        let namespace = Namespace::open(Path::new(path))?;
        if namespace.kind() != NamespaceKind::Net {
            return Err(json::wrong("linux.namespaces", "the path of the network leads to another kind"));
        }
        let own = Process::own()?;
        if namespace.id() == own.namespace(NamespaceKind::Net)?.id() {
            return Ok(Self::Host);
        }
        let ours = own.namespace(NamespaceKind::User)?.id();
        let foreign = namespace.owner()?.is_none_or(|owner| owner.id() == ours);
        Ok(if foreign { Self::Foreign(namespace) } else { Self::Pods })
    }

    /// What shows this network's devices, which only its owner may mount: `None` where the container can.
    pub(super) fn sysfs(&self, kernel: &dyn Kernel) -> Result<Option<DetachedMount>> {
        let Self::Foreign(namespace) = self else { return Ok(None) };
        let visit = NetworkVisit::to(namespace)?;
        let kind = FilesystemKind::Other { name: "sysfs".to_owned(), source: None, options: Vec::new() };
        let flags = Flags::NOSUID | Flags::NODEV | Flags::NOEXEC;
        let sysfs = Filesystem { kind, context: None, access: Access::ReadOnly, flags };
        let mount = kernel.make_filesystem(&sysfs)?;
        visit.leave()?;
        Ok(Some(mount))
    }

    /// Takes this process there for good, if it is not the host's or the pod's own.
    pub(super) fn join(&self) -> Result<Option<NetworkVisit>> {
        match self {
            Self::Foreign(namespace) => Ok(Some(NetworkVisit::to(namespace)?)),
            Self::Host | Self::Pods => Ok(None),
        }
    }
}

fn entry(spec: &Value) -> Option<&Value> {
    let namespaces = spec.get("linux")?.get("namespaces")?.as_array()?;
    namespaces.iter().find(|namespace| namespace.get("type").and_then(Value::as_str) == Some("network"))
}
