//! Prepares the mounts of a configuration that the runtime could not make correctly in a user namespace.

use std::path::{Path, PathBuf};

use container::prepare::Parts;
use container::{Bind, MountPropagation, ReadOnly};
use kernel::{Kernel, Kind, Node, Source, Submounts, Target};
use rustix::fs::StatVfsMountFlags;
use serde_json::{Map, Value, json};

use super::network::Network;
use super::options::{self, Asked};
use super::{Error, Order, Result, json};

/// The mounts of a configuration.
pub(super) struct Mounts<'a, 'p> {
    pub(super) order: &'a Order,
    pub(super) network: &'a Network,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) parts: &'a mut Parts<'p>,
}

impl Mounts<'_, '_> {
    pub(super) fn put(&mut self, spec: &mut Map<String, Value>) -> Result<()> {
        json::list(spec, "mounts")?.iter_mut().try_for_each(|mount| self.one(mount))
    }

    fn one(&mut self, mount: &mut Value) -> Result<()> {
        // The mount has ID mappings from the caller, and so a runtime that supports them.
        if options::is_mapped(mount) {
            return Ok(());
        }
        if let Some(asked) = options::bind(mount, &self.order.bundle, &self.order.ids)? {
            return self.bind(mount, &asked);
        }
        match mount.get("type").and_then(Value::as_str) {
            Some("sysfs") => self.sysfs(mount),
            Some("devpts") => terminals(mount, self.order),
            _ => Ok(()),
        }
    }

    fn bind(&mut self, mount: &mut Value, asked: &Asked) -> Result<()> {
        let bind = &asked.bind;
        let node = Node::open(&bind.source)?;
        // A device node stays the host's: its mode and the device cgroup decide which processes may open it.
        if matches!(node.stat()?.kind, Kind::CharDevice | Kind::BlockDevice) {
            return Ok(());
        }
        let source = self.attach(bind, asked.submounts)?;
        let mut options = asked.options.clone();
        if !options.iter().any(|option| option == "bind" || option == "rbind") {
            options.push("bind".to_owned());
        }
        let locked = locked_flags(&source)?;
        options.extend(
            locked.filter(|flag| !asked.options.iter().any(|option| option == flag)).map(str::to_owned),
        );
        replace(mount, &source, &options)
    }

    fn attach(&mut self, bind: &Bind, submounts: Submounts) -> Result<PathBuf> {
        let clone = self.kernel.clone_mount(Source::Path(&bind.source), submounts)?;
        self.parts.bind(bind, clone).map_err(|cause| match cause {
            container::Error::BindNotIdmappable { .. } => Error::NotIdmappable {
                source_path: bind.source.clone(),
                target: bind.target.clone(),
                policy: self.order.on_refusal,
                cause: Box::new(cause),
            },
            other => other.into(),
        })
    }

    /// Replaces sysfs by a bind mount, since only the owner of a network namespace may mount sysfs for it. In the
    /// host's network namespace it is the host's `/sys`.
    fn sysfs(&mut self, mount: &mut Value) -> Result<()> {
        let source = match self.network {
            Network::Pods => return Ok(()),
            Network::Host => self.hosts_sys(mount)?,
            Network::Foreign(_) => {
                let Some(sysfs) = self.network.sysfs(self.kernel)? else { return Ok(()) };
                let point = self.parts.dir("sys")?;
                self.kernel.attach(sysfs, Target::Path(&point))?;
                point
            }
        };
        let mut options = vec!["rbind".to_owned(), "rprivate".to_owned(), "ro".to_owned()];
        let kept = ["nosuid", "noexec", "nodev"];
        options.extend(json::texts(mount, "options")?.into_iter().filter(|o| kept.contains(&o.as_str())));
        replace(mount, &source, &options)
    }

    fn hosts_sys(&mut self, mount: &Value) -> Result<PathBuf> {
        let target = PathBuf::from(json::text(mount, "destination")?);
        let bind = Bind {
            source: "/sys".into(),
            target,
            ids: None,
            read_only: ReadOnly::Recursive,
            propagation: MountPropagation::None,
            options: Vec::new(),
        };
        self.attach(&bind, Submounts::Included)
    }
}

/// The restrictions of a mount. The kernel locks them in a user namespace: a runtime that remounts a bind mount without
/// them, as runc before 1.2 does, gets EPERM.
fn locked_flags(point: &Path) -> Result<impl Iterator<Item = &'static str>> {
    let flags = rustix::fs::statvfs(point)
        .map_err(|error| Error::File { what: "statvfs", path: point.to_owned(), cause: error.into() })?
        .f_flag;
    let named = [
        (StatVfsMountFlags::NOSUID, "nosuid"),
        (StatVfsMountFlags::NODEV, "nodev"),
        (StatVfsMountFlags::NOEXEC, "noexec"),
        (StatVfsMountFlags::RDONLY, "ro"),
        (StatVfsMountFlags::NOATIME, "noatime"),
        (StatVfsMountFlags::NODIRATIME, "nodiratime"),
    ];
    Ok(named.into_iter().filter(move |(flag, _)| flags.contains(*flag)).map(|(_, name)| name))
}

fn replace(mount: &mut Value, source: &Path, options: &[String]) -> Result<()> {
    let mount = mount.as_object_mut().ok_or_else(|| json::wrong("mounts", "an entry is not an object"))?;
    mount.insert("type".to_owned(), json!("bind"));
    mount.insert("source".to_owned(), json!(source));
    mount.insert("options".to_owned(), json!(options));
    Ok(())
}

/// Removes `gid=` options with groups that are not in the ID mappings, which the kernel would refuse.
fn terminals(mount: &mut Value, order: &Order) -> Result<()> {
    let mapped = |option: &str| {
        let group = option.strip_prefix("gid=").and_then(|group| group.parse().ok());
        group.is_none_or(|group| order.ids.host_group(group).is_some())
    };
    let mut options = json::texts(mount, "options")?;
    if options.iter().all(|option| mapped(option)) {
        return Ok(());
    }
    options.retain(|option| mapped(option));
    let mount = mount.as_object_mut().ok_or_else(|| json::wrong("mounts", "an entry is not an object"))?;
    mount.insert("options".to_owned(), json!(options));
    Ok(())
}
