//! Objects that pods use.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaimSpec, PersistentVolumeSpec, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};

use super::report::{Report, each};
use super::{names, resources};
use crate::finding::Problem;
use crate::place::Path;

/// A ConfigMap or Secret may hold this many bytes.
const MAX_SIZE: usize = 1024 * 1024;
const ACCESS_MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

pub(super) fn config_map(report: &mut Report<'_>, path: &Path<'_>, map: &ConfigMap) {
    let text = map.data.iter().flatten();
    let bytes = map.binary_data.iter().flatten();
    let mut seen = BTreeSet::new();
    for (key, _) in text.clone() {
        report.needs(&path.field("data").field(key), key, names::config_key);
        seen.insert(key.as_str());
    }
    for (key, _) in bytes.clone() {
        let path = path.field("binaryData");
        report.needs(&path.field(key), key, names::config_key);
        report.once(&path.field(key), key, &mut seen);
    }
    let size = text.map(|(_, v)| v.len()).sum::<usize>() + bytes.map(|(_, v)| v.0.len()).sum::<usize>();
    too_large(report, path, size);
}

pub(super) fn secret(report: &mut Report<'_>, path: &Path<'_>, secret: &Secret) {
    let text = secret.string_data.iter().flatten();
    let bytes = secret.data.iter().flatten();
    for (key, _) in text.clone() {
        report.needs(&path.field("stringData").field(key), key, names::config_key);
    }
    for (key, _) in bytes.clone() {
        report.needs(&path.field("data").field(key), key, names::config_key);
    }
    let size = text.map(|(_, v)| v.len()).sum::<usize>() + bytes.map(|(_, v)| v.0.len()).sum::<usize>();
    too_large(report, path, size);
}

fn too_large(report: &mut Report<'_>, path: &Path<'_>, size: usize) {
    if size > MAX_SIZE {
        report.add(path, Problem::TooMuch { what: "bytes of data", limit: MAX_SIZE });
    }
}

pub(super) fn claim(report: &mut Report<'_>, path: &Path<'_>, spec: Option<&PersistentVolumeClaimSpec>) {
    let path = path.field("spec");
    let Some(spec) = spec else { return report.required(&path) };
    access_modes(report, &path.field("accessModes"), spec.access_modes.as_ref());
    report.one_of(&path.field("volumeMode"), spec.volume_mode.as_ref(), &["Filesystem", "Block"]);
    let storage = spec.resources.as_ref().and_then(|r| r.requests.as_ref()).and_then(|r| r.get("storage"));
    let wanted = path.field("resources");
    let wanted = wanted.field("requests");
    let wanted = wanted.field("storage");
    match storage {
        Some(amount) => drop(resources::quantity(report, &wanted, amount)),
        None => report.required(&wanted),
    }
}

pub(super) fn volume(report: &mut Report<'_>, path: &Path<'_>, spec: Option<&PersistentVolumeSpec>) {
    let path = path.field("spec");
    let Some(spec) = spec else { return report.required(&path) };
    access_modes(report, &path.field("accessModes"), spec.access_modes.as_ref());
    report.one_of(&path.field("volumeMode"), spec.volume_mode.as_ref(), &["Filesystem", "Block"]);
    report.one_of(
        &path.field("persistentVolumeReclaimPolicy"),
        spec.persistent_volume_reclaim_policy.as_ref(),
        &["Delete", "Recycle", "Retain"],
    );
    match spec.capacity.as_ref().and_then(|c| c.get("storage")) {
        Some(amount) => drop(resources::quantity(report, &path.field("capacity").field("storage"), amount)),
        None => report.required(&path.field("capacity")),
    }
    if let Some(csi) = spec.csi.as_ref() {
        report.needs(&path.field("csi").field("driver"), &csi.driver, names::csi_driver);
        if csi.volume_handle.is_empty() {
            report.required(&path.field("csi").field("volumeHandle"));
        }
    }
    if let Some(host) = spec.host_path.as_ref() {
        report.needs(&path.field("hostPath").field("path"), &host.path, names::no_climbing);
    }
    if let Some(local) = spec.local.as_ref() {
        report.needs(&path.field("local").field("path"), &local.path, names::no_climbing);
        if spec.node_affinity.is_none() {
            report.required(&path.field("nodeAffinity"));
        }
    }
}

fn access_modes(report: &mut Report<'_>, path: &Path<'_>, modes: Option<&Vec<String>>) {
    if modes.is_none_or(Vec::is_empty) {
        return report.required(path);
    }
    for (index, mode) in each(modes) {
        report.one_of(&path.index(index), Some(mode), &ACCESS_MODES);
    }
    let has_alone = modes.into_iter().flatten().any(|mode| mode == "ReadWriteOncePod");
    if has_alone && modes.map_or(0, Vec::len) > 1 {
        report.forbidden(path, "ReadWriteOncePod must be the only mode");
    }
}

pub(super) fn csi_driver(report: &mut Report<'_>, path: &Path<'_>, driver: &CSIDriver) {
    let name = driver.metadata.name.as_deref().unwrap_or_default();
    report.needs(&path.field("metadata").field("name"), name, names::csi_driver);
    for (index, mode) in each(driver.spec.volume_lifecycle_modes.as_ref()) {
        let path = path.field("spec");
        let path = path.field("volumeLifecycleModes");
        report.one_of(&path.index(index), Some(mode), &["Persistent", "Ephemeral"]);
    }
    report.one_of(
        &path.field("spec").field("fsGroupPolicy"),
        driver.spec.fs_group_policy.as_ref(),
        &["ReadWriteOnceWithFSType", "File", "None"],
    );
}

pub(super) fn runtime_class(report: &mut Report<'_>, path: &Path<'_>, class: &RuntimeClass) {
    report.needs(&path.field("handler"), &class.handler, names::dns_label);
}

pub(super) fn storage_class(report: &mut Report<'_>, path: &Path<'_>, class: &StorageClass) {
    if class.provisioner.is_empty() {
        report.required(&path.field("provisioner"));
    }
    report.one_of(&path.field("reclaimPolicy"), class.reclaim_policy.as_ref(), &["Delete", "Retain"]);
    report.one_of(
        &path.field("volumeBindingMode"),
        class.volume_binding_mode.as_ref(),
        &["Immediate", "WaitForFirstConsumer"],
    );
}
