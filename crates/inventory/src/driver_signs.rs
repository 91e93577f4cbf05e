use std::collections::BTreeSet;

use manifest::k8s_openapi::api::core::v1::{Container, PodSpec};

/// Where a CSI driver's socket is registered: `/var/lib/kubelet/plugins/DRIVER/csi.sock`.
const PLUGINS: &str = "/plugins/";
const REGISTRATION: &str = "--kubelet-registration-path=";

/// By what a pod can be known as the node part of a CSI driver, and what it sees of the host's SELinux.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriverSigns {
    /// Drivers whose sockets it has.
    pub drivers: BTreeSet<String>,
    /// Paths of the host that its containers mount.
    host_paths: BTreeSet<String>,
}

impl DriverSigns {
    pub(crate) fn of(spec: &PodSpec) -> Self {
        let drivers: BTreeSet<String> = registered(spec).chain(sockets(spec)).collect();
        let host_paths = if drivers.is_empty() { BTreeSet::new() } else { mounted(spec) };
        Self { drivers, host_paths }
    }

    /// Which of these paths of the host its containers do not see.
    #[must_use]
    pub fn lacks(&self, paths: &[&str]) -> Vec<String> {
        let sees = |path: &str| self.host_paths.iter().any(|mounted| holds(mounted, path));
        paths.iter().filter(|path| !sees(path)).map(|path| (*path).to_owned()).collect()
    }
}

/// Whether what is mounted is this path or above it.
fn holds(mounted: &str, path: &str) -> bool {
    let rest = path.strip_prefix(mounted.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// The socket path that the registrar beside the driver has as an argument.
fn registered(spec: &PodSpec) -> impl Iterator<Item = String> {
    let words = containers(spec).flat_map(|c| c.args.iter().flatten().chain(c.command.iter().flatten()));
    words.filter_map(|word| of_path(word.strip_prefix(REGISTRATION)?))
}

fn sockets(spec: &PodSpec) -> impl Iterator<Item = String> {
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| of_path(&volume.host_path.as_ref()?.path))
}

/// The driver of `…/plugins/DRIVER` and of what is below it.
fn of_path(path: &str) -> Option<String> {
    let (_, rest) = path.split_once(PLUGINS)?;
    let name = rest.split('/').next()?;
    Some(name.to_owned()).filter(|name| name.contains('.') && name != "kubernetes.io")
}

fn mounted(spec: &PodSpec) -> BTreeSet<String> {
    let used: BTreeSet<&str> = containers(spec)
        .flat_map(|c| c.volume_mounts.iter().flatten())
        .map(|mount| mount.name.as_str())
        .collect();
    let volumes = spec.volumes.iter().flatten().filter(|v| used.contains(v.name.as_str()));
    volumes.filter_map(|v| Some(v.host_path.as_ref()?.path.clone())).collect()
}
