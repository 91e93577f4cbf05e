use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::pod::{Pod, volume_names};
use super::report::{Report, each, shown};
use super::{host, names};
use crate::finding::Problem;
use crate::place::Path;

pub(super) fn mounts(report: &mut Report<'_>, path: &Path<'_>, container: &Container, pod: &Pod<'_>) {
    let known = volume_names(pod);
    let mut seen = BTreeSet::new();
    let devices: BTreeSet<&str> =
        each(container.volume_devices.as_ref()).map(|(_, d)| d.device_path.as_str()).collect();
    let list = path.field("volumeMounts");
    for (index, mount) in each(container.volume_mounts.as_ref()) {
        let path = list.index(index);
        exists(report, &path.field("name"), &mount.name, &known);
        let at = path.field("mountPath");
        report.present(&at, &mount.mount_path);
        report.once(&at, &mount.mount_path, &mut seen);
        if devices.contains(mount.mount_path.as_str()) {
            report.invalid(&at, shown(&mount.mount_path), "is a device in volumeDevices already");
        }
        sub_path(report, &path, mount);
        propagation(report, &path, mount, container);
        recursive_read_only(report, &path.field("recursiveReadOnly"), mount);
    }
}

fn exists(report: &mut Report<'_>, path: &Path<'_>, name: &str, known: &BTreeSet<&str>) {
    if name.is_empty() {
        report.required(path);
    } else if !known.contains(name) {
        report.add(path, Problem::NotFound { what: "volume", name: name.to_owned() });
    }
}

fn sub_path(report: &mut Report<'_>, path: &Path<'_>, mount: &VolumeMount) {
    report.may(&path.field("subPath"), mount.sub_path.as_ref(), names::local_path);
    report.may(&path.field("subPathExpr"), mount.sub_path_expr.as_ref(), names::local_path);
    let is_set = |text: Option<&String>| text.is_some_and(|t| !t.is_empty());
    if is_set(mount.sub_path.as_ref()) && is_set(mount.sub_path_expr.as_ref()) {
        report.forbidden(&path.field("subPathExpr"), "not with a subPath");
    }
}

fn propagation(report: &mut Report<'_>, path: &Path<'_>, mount: &VolumeMount, container: &Container) {
    let path = path.field("mountPropagation");
    let value = mount.mount_propagation.as_ref();
    match value {
        Some(empty) if empty.is_empty() => report.required(&path),
        _ => report.one_of(&path, value, &["None", "HostToContainer", "Bidirectional"]),
    }
    let is_privileged = container.security_context.as_ref().and_then(|c| c.privileged) == Some(true);
    if value.is_some_and(|v| v == "Bidirectional") && !is_privileged {
        report.forbidden(&path, "Bidirectional only in a privileged container");
    }
}

fn recursive_read_only(report: &mut Report<'_>, path: &Path<'_>, mount: &VolumeMount) {
    let value = mount.recursive_read_only.as_ref();
    report.exactly(path, value, &["Disabled", "IfPossible", "Enabled"]);
    if !value.is_some_and(|v| v == "IfPossible" || v == "Enabled") {
        return;
    }
    if mount.read_only != Some(true) {
        report.forbidden(path, "only with readOnly: true");
    }
    if mount.mount_propagation.as_deref().is_some_and(|p| p != "None") {
        report.forbidden(path, "only with mountPropagation: None");
    }
}

pub(super) fn devices(report: &mut Report<'_>, path: &Path<'_>, container: &Container, pod: &Pod<'_>) {
    let path = path.field("volumeDevices");
    let Some(list) = container.volume_devices.as_ref().filter(|d| !d.is_empty()) else { return };
    host::devices(report, &path, pod);
    let (mut paths, mut volumes) = (BTreeSet::new(), BTreeSet::new());
    let mounted: BTreeSet<&str> =
        each(container.volume_mounts.as_ref()).map(|(_, m)| m.name.as_str()).collect();
    for (index, device) in list.iter().enumerate() {
        let path = path.index(index);
        let name = path.field("name");
        exists(report, &name, &device.name, &volume_names(pod));
        report.once(&name, &device.name, &mut volumes);
        report.needs(&path.field("devicePath"), &device.device_path, names::no_climbing);
        report.once(&path.field("devicePath"), &device.device_path, &mut paths);
        if mounted.contains(device.name.as_str()) {
            report.invalid(&name, shown(&device.name), "is in volumeMounts already");
        }
        let volume = pod.spec.volumes.iter().flatten().find(|v| v.name == device.name);
        if volume.is_some_and(|v| v.persistent_volume_claim.is_none() && v.ephemeral.is_none()) {
            report.invalid(&name, shown(&device.name), "only a claim can be a device");
        }
    }
}
