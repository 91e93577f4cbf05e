//! The namespaces of a pod: made without a process in them, and kept by pins.

use cri::{NamespaceMode, NamespaceOption, PodSandboxConfig};
use ids::IdMappings;
use kernel::{
    Charge, Filesystem, FilesystemKind, Flags, IdMaps, MountTable, Namespace, NamespaceKind, Owner, Unmount,
    UsernsFd, unmount,
};

use crate::error::{Error, Result};
use crate::files;
use crate::layout::SandboxPlaces;

/// As much as a container of other runtimes gets.
const SHM_BYTES: u64 = 64 << 20;

const FIELD: &str = "linux.security_context.namespace_options";

/// Which namespaces a pod has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Own {
    /// The network, and with it the host's name.
    pub(crate) network: Sharing,
    /// IPC.
    pub(crate) ipc: Sharing,
    /// Processes.
    pub(crate) pid: Sharing,
}

/// Which processes share a namespace (CRI's `NamespaceMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The containers of the pod.
    Pod,
    /// Each container has its own.
    Nobody,
    /// The host's namespace.
    Host,
}

impl Own {
    /// Those of a sandbox.
    pub(crate) fn of(config: &PodSandboxConfig) -> Result<Self> {
        let security = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        Self::asked(security.and_then(|security| security.namespace_options.as_ref()))
    }

    fn asked(options: Option<&NamespaceOption>) -> Result<Self> {
        let default = NamespaceOption::default();
        let options = options.unwrap_or(&default);
        let sharing = |field: &str, mode: NamespaceMode| match mode {
            NamespaceMode::Pod => Ok(Sharing::Pod),
            NamespaceMode::Node => Ok(Sharing::Host),
            NamespaceMode::Container if field == "pid" => Ok(Sharing::Nobody),
            mode => Err(Error::invalid(
                &format!("{FIELD}.{field}"),
                format!("{} is no mode for a sandbox", mode.as_str_name()),
            )),
        };
        Ok(Self {
            network: sharing("network", options.network())?,
            ipc: sharing("ipc", options.ipc())?,
            pid: sharing("pid", options.pid())?,
        })
    }

    /// The namespaces that the sandbox keeps for as long as it exists, whichever containers run.
    fn kinds(self) -> Vec<NamespaceKind> {
        let network = [NamespaceKind::Net, NamespaceKind::Uts];
        let network = network.into_iter().filter(|_| self.network == Sharing::Pod);
        network.chain((self.ipc == Sharing::Pod).then_some(NamespaceKind::Ipc)).collect()
    }
}

/// What is to be made for a pod.
pub(crate) struct NamespaceRequest<'a> {
    pub(crate) own: Own,
    pub(crate) ids: Option<&'a IdMappings>,
    pub(crate) hostname: &'a str,
    /// The label of the files that its containers share, where SELinux is on.
    pub(crate) label: Option<String>,
}

/// Makes the namespaces and pins them.
pub(crate) fn make(places: &SandboxPlaces, wanted: &NamespaceRequest<'_>) -> Result<()> {
    let NamespaceRequest { own, ids, hostname, .. } = *wanted;
    files::make_dir(&places.pins())?;
    let maps = ids.map(|ids| IdMaps::new(&ids.uids, &ids.gids));
    let userns = maps.map(|maps| UsernsFd::charged(&maps, Charge::Pod)).transpose()?;
    if let Some(userns) = &userns {
        userns.pin(&places.pin(NamespaceKind::User))?;
    }
    let kinds = own.kinds();
    let hostname = kinds.contains(&NamespaceKind::Uts).then_some(hostname);
    for namespace in kernel::namespace::make(userns.as_ref(), &kinds, hostname)? {
        namespace.pin(&places.pin(namespace.kind()))?;
    }
    if own.ipc == Sharing::Pod {
        mount_shm(places, wanted)?;
    }
    Ok(())
}

/// Memory that the pod's containers share: its root is the pod's own root from the start.
fn mount_shm(places: &SandboxPlaces, wanted: &NamespaceRequest<'_>) -> Result<()> {
    let shm = places.shm();
    files::make_dir(&shm)?;
    let owner = root_of(wanted.ids);
    let kind = FilesystemKind::Tmpfs { size: Some(SHM_BYTES), inodes: None, mode: 0o1777, owner };
    let flags = Flags::NOSUID | Flags::NODEV | Flags::NOEXEC;
    Filesystem { flags, context: wanted.label.clone(), ..Filesystem::new(kind) }.mount_at(&shm)?;
    Ok(())
}

/// The pod's root as the host knows it.
pub(super) fn root_of(ids: Option<&IdMappings>) -> Owner {
    let Some(ids) = ids else { return Owner::ROOT };
    let host = |lines: &[ids::IdMapping]| {
        let root = lines.iter().find(|line| u64::from(line.container()) == 0);
        root.map_or(0, |line| line.host().first())
    };
    Owner { uid: host(&ids.uids), gid: host(&ids.gids) }
}

/// Whether all that [`make`] makes is still there: after a reboot nothing is.
pub(crate) fn are_there(places: &SandboxPlaces, own: Own, ids: Option<&IdMappings>) -> bool {
    let user = ids.map(|_| NamespaceKind::User);
    let pid = (own.pid == Sharing::Pod).then_some(NamespaceKind::Pid);
    let mut kinds = own.kinds().into_iter().chain(user).chain(pid);
    kinds.all(|kind| Namespace::open(&places.pin(kind)).is_ok_and(|found| found.kind() == kind))
}

/// Takes all of it away; what is not there is fine.
pub(crate) fn unmake(places: &SandboxPlaces) -> Result<()> {
    for kind in NamespaceKind::ALL {
        Namespace::unpin(&places.pin(kind))?;
    }
    let shm = places.shm();
    while MountTable::read()?.at(&shm).is_some_and(|mount| mount.filesystem == "tmpfs") {
        unmount(&shm, Unmount::Lazy)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(network: NamespaceMode, pid: NamespaceMode) -> NamespaceOption {
        NamespaceOption { network: network.into(), pid: pid.into(), ..NamespaceOption::default() }
    }

    #[test]
    fn nothing_said_is_all_shared_in_the_pod() {
        let own = Own::asked(None).unwrap();
        assert_eq!(own, Own { network: Sharing::Pod, ipc: Sharing::Pod, pid: Sharing::Pod });
        assert_eq!(own.kinds(), [NamespaceKind::Net, NamespaceKind::Uts, NamespaceKind::Ipc]);
    }

    #[test]
    fn the_hosts_network_comes_with_the_hosts_name() {
        let own = Own::asked(Some(&options(NamespaceMode::Node, NamespaceMode::Container))).unwrap();
        assert_eq!((own.network, own.pid), (Sharing::Host, Sharing::Nobody));
        assert_eq!(own.kinds(), [NamespaceKind::Ipc]);
    }

    #[test]
    fn modes_that_make_no_sense_for_a_sandbox_are_refused_by_field() {
        for (asked, field) in [
            (options(NamespaceMode::Container, NamespaceMode::Pod), "namespace_options.network"),
            (options(NamespaceMode::Pod, NamespaceMode::Target), "namespace_options.pid"),
        ] {
            let error = Own::asked(Some(&asked)).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
