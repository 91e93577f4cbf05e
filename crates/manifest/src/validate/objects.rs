//! Objects that pods use.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};

use super::names;
use super::report::{Report, each};
use crate::finding::Problem;
use crate::place::Path;

/// A ConfigMap or Secret may hold this many bytes.
const MAX_SIZE: usize = 1024 * 1024;

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
