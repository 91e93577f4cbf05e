use k8s_openapi::api::core::v1::{self as api, PodSpec};
use plan::{Capabilities, Container, Device, Mount, ProcMount, RecursiveReadOnly, Stage};

use types::MountPropagation;

use super::{id, selinux};
use crate::validate::as_container;

/// All containers in the order of their start.
pub(super) fn all(spec: &PodSpec, root: &str) -> Vec<Container> {
    let init = spec.init_containers.iter().flatten().enumerate();
    let init = init.map(|(i, c)| one(c, Stage::Init, format!("{root}initContainers[{i}]"), spec));
    let main = spec.containers.iter().enumerate();
    let main = main.map(|(i, c)| one(c, Stage::Main, format!("{root}containers[{i}]"), spec));
    let late = spec.ephemeral_containers.iter().flatten().enumerate();
    let late = late.map(|(i, c)| {
        one(&as_container(c), Stage::Ephemeral, format!("{root}ephemeralContainers[{i}]"), spec)
    });
    init.chain(main).chain(late).collect()
}

fn one(container: &api::Container, stage: Stage, field: String, spec: &PodSpec) -> Container {
    let own = container.security_context.clone().unwrap_or_default();
    let pod = spec.security_context.clone().unwrap_or_default();
    Container {
        name: container.name.clone(),
        stage,
        run_as_user: own.run_as_user.or(pod.run_as_user).and_then(id),
        run_as_group: own.run_as_group.or(pod.run_as_group).and_then(id),
        run_as_non_root: own.run_as_non_root.or(pod.run_as_non_root),
        privileged: own.privileged == Some(true),
        proc_mount: proc_mount(own.proc_mount.as_deref()),
        capabilities: own.capabilities.map(capabilities).unwrap_or_default(),
        selinux: own.se_linux_options.as_ref().map(selinux),
        mounts: mounts(container, &field),
        devices: devices(container),
        host_ports: host_ports(container, spec),
        field,
    }
}

fn proc_mount(value: Option<&str>) -> ProcMount {
    if value == Some("Unmasked") { ProcMount::Unmasked } else { ProcMount::Default }
}

fn capabilities(found: api::Capabilities) -> Capabilities {
    let bare = |name: String| name.strip_prefix("CAP_").map_or(name.clone(), str::to_owned);
    let list = |names: Option<Vec<String>>| names.into_iter().flatten().map(bare).collect();
    Capabilities { add: list(found.add), drop: list(found.drop) }
}

fn mounts(container: &api::Container, field: &str) -> Vec<Mount> {
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    mounts.map(|(index, mount)| self::mount(mount, format!("{field}.volumeMounts[{index}]"))).collect()
}

fn mount(mount: &api::VolumeMount, field: String) -> Mount {
    let part = [&mount.sub_path, &mount.sub_path_expr].into_iter().flatten().find(|p| !p.is_empty());
    Mount {
        volume: mount.name.clone(),
        field,
        path: mount.mount_path.clone(),
        sub_path: part.cloned(),
        read_only: mount.read_only == Some(true),
        recursive_read_only: match mount.recursive_read_only.as_deref() {
            Some("IfPossible") => RecursiveReadOnly::IfPossible,
            Some("Enabled") => RecursiveReadOnly::Enabled,
            _ => RecursiveReadOnly::Disabled,
        },
        propagation: mount
            .mount_propagation
            .as_deref()
            .and_then(MountPropagation::from_name)
            .unwrap_or_default(),
    }
}

fn devices(container: &api::Container) -> Vec<Device> {
    let devices = container.volume_devices.iter().flatten();
    devices.map(|d| Device { volume: d.name.clone(), path: d.device_path.clone() }).collect()
}

/// With the host's network, a container's ports are the host's.
fn host_ports(container: &api::Container, spec: &PodSpec) -> Vec<u16> {
    let is_host_network = spec.host_network == Some(true);
    let ports = container.ports.iter().flatten();
    let number = |port: &api::ContainerPort| match port.host_port.filter(|p| *p != 0) {
        None if is_host_network => Some(port.container_port),
        host_port => host_port,
    };
    ports.filter_map(number).filter_map(|port| u16::try_from(port).ok()).collect()
}
