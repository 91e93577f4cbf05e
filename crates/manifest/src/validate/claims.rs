//! Claims of volumes, alone and as templates, and the volumes that they bind.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, FCVolumeSource, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate, PersistentVolumeSpec, SecretReference,
    TypedObjectReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use types::Quantity;

use super::report::{Report, each, shown};
use super::{in_tree, iscsi, metadata, names, resources, selectors};
use crate::place::Path;

const ACCESS_MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Filesystem", "Block"];

/// A claim of its own. The server drops a source of data that it has no way to fill a volume from.
pub(super) fn object(report: &mut Report<'_>, path: &Path<'_>, claim: &PersistentVolumeClaim) {
    let Some(spec) = claim.spec.as_ref() else { return report.required(&path.field("spec")) };
    let mut spec = spec.clone();
    spec.data_source_ref =
        spec.data_source_ref.filter(|s| s.namespace.as_deref().unwrap_or_default().is_empty());
    if spec.data_source_ref.is_none() {
        spec.data_source = spec.data_source.filter(|source| {
            let group = source.api_group.as_deref().unwrap_or_default();
            matches!(
                (source.kind.as_str(), group),
                ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
            )
        });
    }
    self::claim(report, path, Some(&spec));
}

/// A claim's spec; it is at `spec` below the path.
pub(super) fn claim(report: &mut Report<'_>, path: &Path<'_>, spec: Option<&PersistentVolumeClaimSpec>) {
    let path = path.field("spec");
    let Some(spec) = spec else { return report.required(&path) };
    access_modes(report, &path.field("accessModes"), spec.access_modes.as_ref());
    report.exactly(&path.field("volumeMode"), spec.volume_mode.as_ref(), &VOLUME_MODES);
    selectors::labels(report, &path.field("selector"), spec.selector.as_ref());
    report.may(&path.field("storageClassName"), spec.storage_class_name.as_ref(), names::dns_subdomain);
    let class = path.field("volumeAttributesClassName");
    report.may(&class, spec.volume_attributes_class_name.as_ref(), names::dns_subdomain);
    storage(report, &path, spec);
    data_sources(report, &path, spec);
}

fn storage(report: &mut Report<'_>, path: &Path<'_>, spec: &PersistentVolumeClaimSpec) {
    let path = path.field("resources");
    let requests = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    let limits = spec.resources.as_ref().and_then(|r| r.limits.as_ref());
    for (field, amounts) in [("requests", requests), ("limits", limits)] {
        for (name, amount) in amounts.into_iter().flatten() {
            let list = path.field(field);
            let path = list.field(name);
            let read = resources::readable(report, &path, amount);
            let is_request = field == "requests" && name == "storage";
            if is_request && read.is_some_and(|amount| amount <= Quantity::ZERO) {
                report.invalid(&path, shown(&amount.0), "must be more than 0");
            }
        }
    }
    if !requests.is_some_and(|requests| requests.contains_key("storage")) {
        report.required(&path.field("requests").field("storage"));
    }
}

/// What the new volume is filled from; `dataSource` is the old field for it.
fn data_sources(report: &mut Report<'_>, path: &Path<'_>, spec: &PersistentVolumeClaimSpec) {
    let old = spec.data_source.as_ref().map(|source| TypedObjectReference {
        api_group: source.api_group.clone(),
        kind: source.kind.clone(),
        name: source.name.clone(),
        namespace: None,
    });
    let new = spec.data_source_ref.as_ref();
    for (field, source) in [("dataSource", old.as_ref()), ("dataSourceRef", new)] {
        if let Some(source) = source {
            data_source(report, &path.field(field), source);
        }
    }
    if let (Some(old), Some(new)) = (old, new) {
        let is_elsewhere = new.namespace.as_ref().is_some_and(|namespace| !namespace.is_empty());
        let is_same =
            old.api_group == new.api_group && old.kind == new.kind && old.name == new.name && !is_elsewhere;
        if !is_same {
            report.forbidden(&path.field("dataSource"), "dataSourceRef says something else");
        }
    }
}

fn data_source(report: &mut Report<'_>, path: &Path<'_>, source: &TypedObjectReference) {
    report.present(&path.field("name"), &source.name);
    report.present(&path.field("kind"), &source.kind);
    let group = source.api_group.as_deref().unwrap_or_default();
    if group.is_empty() && source.kind != "PersistentVolumeClaim" {
        report.invalid(&path.field("kind"), shown(&source.kind), "needs an apiGroup");
    }
    report.may(&path.field("apiGroup"), source.api_group.as_ref(), names::dns_subdomain);
    report.may(&path.field("namespace"), source.namespace.as_ref(), names::dns_label);
}

/// The claim that a pod's own volume is made from.
pub(super) fn template(report: &mut Report<'_>, path: &Path<'_>, template: &PersistentVolumeClaimTemplate) {
    if let Some(own) = template.metadata.as_ref() {
        let path = path.field("metadata");
        metadata::labels_and_annotations(report, &path, own);
        let stripped = ObjectMeta { labels: None, annotations: None, ..own.clone() };
        if !is_unset(&stripped) {
            report.forbidden(&path, "only labels and annotations may be set");
        }
    }
    claim(report, path, Some(&template.spec));
}

/// Whether nothing but empty texts is set: such a text counts as none.
fn is_unset(metadata: &ObjectMeta) -> bool {
    let texts = [
        &metadata.name,
        &metadata.generate_name,
        &metadata.namespace,
        &metadata.uid,
        &metadata.resource_version,
        &metadata.self_link,
    ];
    let rest = ObjectMeta {
        name: None,
        generate_name: None,
        namespace: None,
        uid: None,
        resource_version: None,
        self_link: None,
        generation: metadata.generation.filter(|g| *g != 0),
        ..metadata.clone()
    };
    texts.into_iter().flatten().all(String::is_empty) && rest == ObjectMeta::default()
}

pub(super) fn volume(report: &mut Report<'_>, path: &Path<'_>, volume: &PersistentVolume) {
    let path = path.field("spec");
    let Some(spec) = volume.spec.as_ref() else { return report.required(&path) };
    access_modes(report, &path.field("accessModes"), spec.access_modes.as_ref());
    report.exactly(&path.field("volumeMode"), spec.volume_mode.as_ref(), &VOLUME_MODES);
    let policy = path.field("persistentVolumeReclaimPolicy");
    let policies = ["Delete", "Recycle", "Retain"];
    report.one_of(&policy, spec.persistent_volume_reclaim_policy.as_ref(), &policies);
    report.may(&path.field("storageClassName"), spec.storage_class_name.as_ref(), names::dns_subdomain);
    capacity(report, &path.field("capacity"), spec);
    kinds(report, &path, spec);
    attributes_class(report, &path, spec);
    in_tree::of_persistent(report, &path, spec);
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    sources(report, &path, spec, name);
    if let Some(affinity) = spec.node_affinity.as_ref() {
        let path = path.field("nodeAffinity");
        match affinity.required.as_ref() {
            Some(required) => selectors::nodes(report, &path.field("required"), required),
            None => report.required(&path.field("required")),
        }
    }
}

fn capacity(report: &mut Report<'_>, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    for (name, amount) in spec.capacity.iter().flatten() {
        let path = path.field(name);
        if name != "storage" {
            report.forbidden(&path, "a volume has no other capacity than storage");
        }
        if resources::readable(report, &path, amount).is_some_and(|amount| amount <= Quantity::ZERO) {
            report.invalid(&path, shown(&amount.0), "must be more than 0");
        }
    }
    if !spec.capacity.as_ref().is_some_and(|c| c.contains_key("storage")) {
        report.required(&path.field("storage"));
    }
}

fn kinds(report: &mut Report<'_>, path: &Path<'_>, v: &PersistentVolumeSpec) {
    report.just_one(
        path,
        &[
            ("hostPath", v.host_path.is_some()),
            ("gcePersistentDisk", v.gce_persistent_disk.is_some()),
            ("awsElasticBlockStore", v.aws_elastic_block_store.is_some()),
            ("glusterfs", v.glusterfs.is_some()),
            ("flocker", v.flocker.is_some()),
            ("nfs", v.nfs.is_some()),
            ("rbd", v.rbd.is_some()),
            ("quobyte", v.quobyte.is_some()),
            ("cephfs", v.cephfs.is_some()),
            ("iscsi", v.iscsi.is_some()),
            ("cinder", v.cinder.is_some()),
            ("fc", v.fc.is_some()),
            ("flexVolume", v.flex_volume.is_some()),
            ("azureFile", v.azure_file.is_some()),
            ("vsphereVolume", v.vsphere_volume.is_some()),
            ("photonPersistentDisk", v.photon_persistent_disk.is_some()),
            ("portworxVolume", v.portworx_volume.is_some()),
            ("azureDisk", v.azure_disk.is_some()),
            ("scaleIO", v.scale_io.is_some()),
            ("local", v.local.is_some()),
            ("storageos", v.storageos.is_some()),
            ("csi", v.csi.is_some()),
        ],
    );
}

fn attributes_class(report: &mut Report<'_>, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    let Some(class) = spec.volume_attributes_class_name.as_ref() else { return };
    let path = path.field("volumeAttributesClassName");
    report.needs(&path, class, names::dns_subdomain);
    if spec.csi.is_none() {
        report.forbidden(&path, "only with csi");
    }
}

fn sources(report: &mut Report<'_>, path: &Path<'_>, spec: &PersistentVolumeSpec, name: &str) {
    if let Some(csi) = spec.csi.as_ref() {
        self::csi(report, &path.field("csi"), csi);
    }
    if let Some(host) = spec.host_path.as_ref() {
        let is_root = names::is_root(&host.path);
        super::sources::host_path(report, &path.field("hostPath"), host);
        if is_root && spec.persistent_volume_reclaim_policy.as_deref() == Some("Recycle") {
            report
                .forbidden(&path.field("persistentVolumeReclaimPolicy"), "the whole host cannot be recycled");
        }
    }
    if let Some(local) = spec.local.as_ref() {
        report.needs(&path.field("local").field("path"), &local.path, names::no_climbing);
        if spec.node_affinity.is_none() {
            report.required(&path.field("nodeAffinity"));
        }
    }
    if let Some(nfs) = spec.nfs.as_ref() {
        super::sources::nfs(report, &path.field("nfs"), nfs);
    }
    if let Some(fc) = spec.fc.as_ref() {
        self::fc(report, &path.field("fc"), fc);
    }
    if let Some(volume) = spec.iscsi.as_ref() {
        let path = path.field("iscsi");
        let target = iscsi::Target {
            volume: name,
            portal: &volume.target_portal,
            iqn: &volume.iqn,
            lun: volume.lun,
            initiator: volume.initiator_name.as_deref(),
            needs_secret: volume.chap_auth_discovery == Some(true) || volume.chap_auth_session == Some(true),
            has_secret: volume.secret_ref.is_some(),
        };
        iscsi::target(report, &path, &target);
        if volume.secret_ref.as_ref().is_some_and(|s| s.name.as_deref().unwrap_or_default().is_empty()) {
            report.required(&path.field("secretRef").field("name"));
        }
    }
}

fn csi(report: &mut Report<'_>, path: &Path<'_>, csi: &CSIPersistentVolumeSource) {
    report.needs(&path.field("driver"), &csi.driver, names::csi_driver);
    report.present(&path.field("volumeHandle"), &csi.volume_handle);
    let secrets = [
        ("controllerPublishSecretRef", csi.controller_publish_secret_ref.as_ref()),
        ("controllerExpandSecretRef", csi.controller_expand_secret_ref.as_ref()),
        ("nodePublishSecretRef", csi.node_publish_secret_ref.as_ref()),
        ("nodeExpandSecretRef", csi.node_expand_secret_ref.as_ref()),
    ];
    for (field, secret) in secrets {
        if let Some(secret) = secret {
            self::secret(report, &path.field(field), secret);
        }
    }
}

fn secret(report: &mut Report<'_>, path: &Path<'_>, secret: &SecretReference) {
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    report.needs(&path.field("name"), &text(secret.name.as_ref()), names::dns_subdomain);
    report.needs(&path.field("namespace"), &text(secret.namespace.as_ref()), names::dns_label);
}

pub(super) fn fc(report: &mut Report<'_>, path: &Path<'_>, volume: &FCVolumeSource) {
    let is_set = |list: Option<&Vec<String>>| list.is_some_and(|l| !l.is_empty());
    let (targets, ids) = (is_set(volume.target_wwns.as_ref()), is_set(volume.wwids.as_ref()));
    report.just_one(path, &[("targetWWNs", targets), ("wwids", ids)]);
    match volume.lun {
        None if targets => report.required(&path.field("lun")),
        lun => report.ranged(&path.field("lun"), lun.filter(|_| targets), 0..=255),
    }
}

fn access_modes(report: &mut Report<'_>, path: &Path<'_>, modes: Option<&Vec<String>>) {
    if modes.is_none_or(Vec::is_empty) {
        return report.required(path);
    }
    for (index, mode) in each(modes) {
        report.choice(&path.index(index), mode, &ACCESS_MODES);
    }
    let is_alone = |mode: &&String| *mode == "ReadWriteOncePod";
    let modes = || modes.into_iter().flatten();
    if modes().any(|mode| is_alone(&mode)) && modes().any(|mode| !is_alone(&mode)) {
        report.forbidden(path, "ReadWriteOncePod must be the only mode");
    }
}
