use std::path::Path;

use kernel::{DetachedMount, Kernel, MountTable, Node, Source, Submounts};

use types::MountPropagation;

use super::binds;
use crate::container_spec::{Bind, ContainerSpec, NamespaceSpec};
use crate::error::{Error, Result};

/// Clones of host mounts that stay in the host's peer groups, in the order of the binds with mount propagation.
#[derive(Debug, Default)]
pub struct FromHost(Vec<Option<DetachedMount>>);

/// Clones the sources of binds with mount propagation. Call it in the host's mount namespace, before the private one is
/// entered: mounts of the private namespace do not propagate to the host. Fails if a source does not exist.
pub fn from_host(kernel: &dyn Kernel, start: &ContainerSpec) -> Result<FromHost> {
    let both_ways = binds::all(start).filter(|bind| bind.propagation == MountPropagation::Bidirectional);
    let clone = |bind: &Bind| {
        if start.namespaces.user != NamespaceSpec::Host {
            return Err(Error::BothWays { target: bind.target.clone() });
        }
        shared(&bind.source)?;
        Ok(Some(kernel.clone_mount(Source::Path(&bind.source), Submounts::Included)?))
    };
    both_ways.map(clone).collect::<Result<_>>().map(FromHost)
}

impl FromHost {
    /// The next one, which is `bind`'s.
    pub(super) fn take(&mut self, bind: &Bind) -> Result<DetachedMount> {
        self.0.iter_mut().find_map(Option::take).ok_or_else(|| Error::NotHeld { bind: bind.source.clone() })
    }
}

fn shared(source: &Path) -> Result<()> {
    let mount = Node::open(source)?.mount_id()?;
    let table = MountTable::read()?;
    let shares =
        table.by_id(mount).is_some_and(|m| m.propagation.iter().any(|tag| tag.starts_with("shared:")));
    if shares { Ok(()) } else { Err(Error::NotShared { bind: source.to_owned() }) }
}
