//! The network namespace of a container, and what the container cannot mount or set in it.

use std::path::Path;

use kernel::{
    Access, DetachedMount, Filesystem, FilesystemKind, Flags, Kernel, Namespace, NamespaceKind, NetworkVisit,
    Process,
};
use serde_json::Value;

use super::{Result, json};

/// The network namespace of a container, by the user namespace that owns it.
#[derive(Debug)]
pub(super) enum Network {
    /// The host's network namespace.
    Host,
    /// One that the pod's user namespace owns: the runtime handles it as usual.
    Pods,
    /// One of the pod's own that the host's user namespace owns, as containerd and CNI create it.
    Foreign(Namespace),
}

impl Network {
    /// The network namespace in a configuration. It is an error if its path cannot be opened or is another type of
    /// namespace.
    pub(super) fn of(spec: &Value) -> Result<Self> {
        let Some(entry) = entry(spec) else { return Ok(Self::Host) };
        let path = match entry.get("path") {
            None | Some(Value::Null) => return Ok(Self::Pods),
            Some(Value::String(path)) if path.is_empty() => return Ok(Self::Pods),
            Some(_) => json::text(entry, "path")?,
        };
        let namespace = Namespace::open(Path::new(path))?;
        if namespace.kind() != NamespaceKind::Net {
            return Err(json::wrong("linux.namespaces", "the network's path is another type of namespace"));
        }
        let own = Process::own()?;
        if namespace.id() == own.namespace(NamespaceKind::Net)?.id() {
            return Ok(Self::Host);
        }
        let ours = own.namespace(NamespaceKind::User)?.id();
        let foreign = namespace.owner()?.is_none_or(|owner| owner.id() == ours);
        Ok(if foreign { Self::Foreign(namespace) } else { Self::Pods })
    }

    /// A sysfs of this network namespace, which only its owner may mount: `None` where the container can mount it.
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

    /// Joins this network namespace, if it is neither the host's nor owned by the pod's user namespace.
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
