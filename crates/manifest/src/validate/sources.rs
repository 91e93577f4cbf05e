//! What a volume is made of, kind by kind.

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, HostPathVolumeSource, ISCSIVolumeSource, KeyToPath,
    NFSVolumeSource, Volume,
};

use super::env::{self, IN_FILE};
use super::pod::Pod;
use super::report::{Report, each};
use super::{claims, in_tree, iscsi, names, projected, resources};
use crate::place::Path;

pub(super) fn source(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume, pod: &Pod<'_>) {
    files(report, path, volume);
    if let Some(projected) = volume.projected.as_ref() {
        projected::volume(report, &path.field("projected"), projected, pod);
    }
    node(report, path, volume);
    stores(report, path, volume);
    in_tree::of_pod(report, path, volume);
}

/// Volumes whose files the node writes.
fn files(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume) {
    if let Some(map) = volume.config_map.as_ref() {
        let path = path.field("configMap");
        report.present(&path.field("name"), &map.name);
        mode(report, &path.field("defaultMode"), map.default_mode);
        items(report, &path, map.items.as_ref());
    }
    if let Some(secret) = volume.secret.as_ref() {
        let path = path.field("secret");
        report.present(&path.field("secretName"), secret.secret_name.as_deref().unwrap_or_default());
        mode(report, &path.field("defaultMode"), secret.default_mode);
        items(report, &path, secret.items.as_ref());
    }
    if let Some(downward) = volume.downward_api.as_ref() {
        let path = path.field("downwardAPI");
        mode(report, &path.field("defaultMode"), downward.default_mode);
        for (index, file) in each(downward.items.as_ref()) {
            downward_file(report, &path.field("items").index(index), file);
        }
    }
}

/// Volumes of the node's own.
fn node(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume) {
    if let Some(dir) = volume.empty_dir.as_ref() {
        empty_dir(report, &path.field("emptyDir"), dir);
    }
    if let Some(host) = volume.host_path.as_ref() {
        host_path(report, &path.field("hostPath"), host);
    }
    if let Some(image) = volume.image.as_ref() {
        let path = path.field("image");
        report.present(&path.field("reference"), image.reference.as_deref().unwrap_or_default());
        report.one_of(
            &path.field("pullPolicy"),
            image.pull_policy.as_ref(),
            &["Always", "IfNotPresent", "Never"],
        );
    }
}

pub(super) fn host_path(report: &mut Report<'_>, path: &Path<'_>, host: &HostPathVolumeSource) {
    report.needs(&path.field("path"), &host.path, names::no_climbing);
    let types =
        ["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
    report.one_of(&path.field("type"), host.type_.as_ref().filter(|_| !host.path.is_empty()), &types);
}

/// Volumes that are kept elsewhere.
fn stores(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume) {
    if let Some(claim) = volume.persistent_volume_claim.as_ref() {
        let path = path.field("persistentVolumeClaim");
        report.present(&path.field("claimName"), &claim.claim_name);
    }
    if let Some(ephemeral) = volume.ephemeral.as_ref() {
        let path = path.field("ephemeral");
        let path = path.field("volumeClaimTemplate");
        match ephemeral.volume_claim_template.as_ref() {
            Some(template) => claims::template(report, &path, template),
            None => report.required(&path),
        }
    }
    if let Some(csi) = volume.csi.as_ref() {
        let path = path.field("csi");
        report.needs(&path.field("driver"), &csi.driver, names::csi_driver);
        if let Some(secret) = csi.node_publish_secret_ref.as_ref() {
            report.needs(
                &path.field("nodePublishSecretRef").field("name"),
                &secret.name,
                names::dns_subdomain,
            );
        }
    }
    if let Some(nfs) = volume.nfs.as_ref() {
        self::nfs(report, &path.field("nfs"), nfs);
    }
    if let Some(target) = volume.iscsi.as_ref() {
        self::iscsi(report, &path.field("iscsi"), target, &volume.name);
    }
    if let Some(fc) = volume.fc.as_ref() {
        claims::fc(report, &path.field("fc"), fc);
    }
}

pub(super) fn nfs(report: &mut Report<'_>, path: &Path<'_>, nfs: &NFSVolumeSource) {
    report.present(&path.field("server"), &nfs.server);
    report.needs(&path.field("path"), &nfs.path, names::absolute_path);
}

fn iscsi(report: &mut Report<'_>, path: &Path<'_>, volume: &ISCSIVolumeSource, name: &str) {
    let target = iscsi::Target {
        volume: name,
        portal: &volume.target_portal,
        iqn: &volume.iqn,
        lun: volume.lun,
        initiator: volume.initiator_name.as_deref(),
        needs_secret: volume.chap_auth_discovery == Some(true) || volume.chap_auth_session == Some(true),
        has_secret: volume.secret_ref.is_some(),
    };
    iscsi::target(report, path, &target);
}

pub(super) fn mode(report: &mut Report<'_>, path: &Path<'_>, mode: Option<i32>) {
    if let Some(mode) = mode.filter(|m| !(0..=0o777).contains(m)) {
        report.invalid(path, mode, "must be from 0 to 0777 (511 in decimal)");
    }
}

pub(super) fn items(report: &mut Report<'_>, path: &Path<'_>, items: Option<&Vec<KeyToPath>>) {
    for (index, item) in each(items) {
        let list = path.field("items");
        let path = list.index(index);
        report.present(&path.field("key"), &item.key);
        report.needs(&path.field("path"), &item.path, names::projected_path);
        mode(report, &path.field("mode"), item.mode);
    }
}

pub(super) fn downward_file(report: &mut Report<'_>, path: &Path<'_>, file: &DownwardAPIVolumeFile) {
    report.needs(&path.field("path"), &file.path, names::projected_path);
    mode(report, &path.field("mode"), file.mode);
    let refs =
        [("fieldRef", file.field_ref.is_some()), ("resourceFieldRef", file.resource_field_ref.is_some())];
    report.just_one(path, &refs);
    if let Some(field) = file.field_ref.as_ref() {
        env::field_ref(report, &path.field("fieldRef"), field, IN_FILE);
    }
    if let Some(resource) = file.resource_field_ref.as_ref() {
        let path = path.field("resourceFieldRef");
        report.present(&path.field("containerName"), resource.container_name.as_deref().unwrap_or_default());
        env::resource(report, &path, resource);
    }
}

fn empty_dir(report: &mut Report<'_>, path: &Path<'_>, dir: &EmptyDirVolumeSource) {
    if let Some(limit) = dir.size_limit.as_ref() {
        resources::quantity(report, &path.field("sizeLimit"), limit);
    }
    report.ranged(&path.field("mode"), dir.mode, 0..=0o1777);
}
