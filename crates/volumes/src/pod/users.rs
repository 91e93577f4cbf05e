//! A pod's user namespace, as its volumes need it.

use std::sync::Arc;

use ids::{ContainerId, IdKind, UserNamespace};
use kernel::{IdMaps, Kernel, Owner, UsernsFd};

use crate::error::{Error, Result};
use crate::ownership::Owners;
use crate::record::Numbers;
use crate::wanted::Wanted;
use types::PodUid;

/// A pod's users as IDs of the host.
#[derive(Debug)]
pub(crate) struct Users<'a> {
    pod: &'a PodUid,
    namespace: &'a UserNamespace,
    /// The namespace that mounts are idmapped by; `None` for a pod with the host's users, or without
    /// any volume that is idmapped.
    idmap: Option<Arc<UsernsFd>>,
}

impl<'a> Users<'a> {
    pub(crate) fn of(wanted: &'a Wanted, kernel: &dyn Kernel) -> Result<Self> {
        let idmapped = wanted.volumes.iter().any(|v| v.owners == plan::Owners::Idmapped);
        let maps = maps(&wanted.users).filter(|_| idmapped);
        let idmap = maps.map(|maps| kernel.user_namespace(&maps)).transpose()?;
        Ok(Self { pod: &wanted.pod, namespace: &wanted.users, idmap })
    }

    pub(crate) fn namespace(&self) -> &UserNamespace {
        self.namespace
    }

    pub(crate) fn idmap(&self) -> Option<&UsernsFd> {
        self.idmap.as_deref()
    }

    /// How owners are written in such numbers.
    pub(crate) fn owners(&self, numbers: Numbers) -> Owners {
        match numbers {
            Numbers::Containers => Owners::Container,
            Numbers::Hosts => Owners::Translated(self.namespace.clone()),
        }
    }

    /// What the pod's root is on disk.
    pub(crate) fn root(&self, numbers: Numbers) -> Result<Owner> {
        let root = self.owners(numbers).owner(ContainerId::ROOT, ContainerId::ROOT);
        root.map_err(|cause| Error::Unmapped { pod: self.pod.clone(), cause })
    }
}

/// The maps of a user namespace; `None` where there is none.
pub(crate) fn maps(namespace: &UserNamespace) -> Option<IdMaps> {
    Some(IdMaps::new(&namespace.lines(IdKind::Uid)?, &namespace.lines(IdKind::Gid)?))
}
