//! What a volume is made of, kind by kind.

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, FCVolumeSource, ISCSIVolumeSource, KeyToPath,
    ProjectedVolumeSource, Volume, VolumeProjection,
};

use super::env::{self, IN_FILE};
use super::report::{Report, each};
use super::{names, objects, resources};
use crate::place::Path;

pub(super) fn source(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume) {
    files(report, path, volume);
    node(report, path, volume);
    stores(report, path, volume);
}

/// Volumes whose files the node writes.
fn files(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume) {
    if let Some(map) = volume.config_map.as_ref() {
        let path = path.field("configMap");
        report.needs(&path.field("name"), &map.name, anything);
        mode(report, &path.field("defaultMode"), map.default_mode);
        items(report, &path, map.items.as_ref());
    }
    if let Some(secret) = volume.secret.as_ref() {
        let path = path.field("secret");
        report.needs(&path.field("secretName"), secret.secret_name.as_deref().unwrap_or_default(), anything);
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
    if let Some(projected) = volume.projected.as_ref() {
        self::projected(report, &path.field("projected"), projected);
    }
}

/// Volumes of the node's own.
fn node(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume) {
    if let Some(dir) = volume.empty_dir.as_ref() {
        empty_dir(report, &path.field("emptyDir"), dir);
    }
    if let Some(host) = volume.host_path.as_ref() {
        let path = path.field("hostPath");
        report.needs(&path.field("path"), &host.path, names::no_climbing);
        let types =
            ["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
        report.one_of(&path.field("type"), host.type_.as_ref(), &types);
    }
    if let Some(image) = volume.image.as_ref() {
        let path = path.field("image");
        report.needs(
            &path.field("reference"),
            image.reference.as_deref().unwrap_or_default(),
            names::trimmed,
        );
        report.one_of(
            &path.field("pullPolicy"),
            image.pull_policy.as_ref(),
            &["Always", "IfNotPresent", "Never"],
        );
    }
}

/// Volumes that are kept elsewhere.
fn stores(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume) {
    if let Some(claim) = volume.persistent_volume_claim.as_ref() {
        let path = path.field("persistentVolumeClaim");
        report.needs(&path.field("claimName"), &claim.claim_name, anything);
    }
    if let Some(ephemeral) = volume.ephemeral.as_ref() {
        let path = path.field("ephemeral");
        let path = path.field("volumeClaimTemplate");
        match ephemeral.volume_claim_template.as_ref() {
            Some(template) => objects::claim(report, &path, Some(&template.spec)),
            None => report.required(&path),
        }
    }
    if let Some(csi) = volume.csi.as_ref() {
        report.needs(&path.field("csi").field("driver"), &csi.driver, names::csi_driver);
    }
    if let Some(nfs) = volume.nfs.as_ref() {
        let path = path.field("nfs");
        report.needs(&path.field("server"), &nfs.server, anything);
        report.needs(&path.field("path"), &nfs.path, names::absolute_path);
    }
    if let Some(iscsi) = volume.iscsi.as_ref() {
        self::iscsi(report, &path.field("iscsi"), iscsi);
    }
    if let Some(fc) = volume.fc.as_ref() {
        self::fc(report, &path.field("fc"), fc);
    }
}

fn anything(_: &str) -> Result<(), &'static str> {
    Ok(())
}

fn mode(report: &mut Report<'_>, path: &Path<'_>, mode: Option<i32>) {
    if let Some(mode) = mode.filter(|m| !(0..=0o777).contains(m)) {
        report.invalid(path, mode, "must be from 0 to 0777 (511 in decimal)");
    }
}

fn items(report: &mut Report<'_>, path: &Path<'_>, items: Option<&Vec<KeyToPath>>) {
    for (index, item) in each(items) {
        let list = path.field("items");
        let path = list.index(index);
        report.needs(&path.field("key"), &item.key, anything);
        report.needs(&path.field("path"), &item.path, names::projected_path);
        mode(report, &path.field("mode"), item.mode);
    }
}

fn downward_file(report: &mut Report<'_>, path: &Path<'_>, file: &DownwardAPIVolumeFile) {
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
        report.needs(
            &path.field("containerName"),
            resource.container_name.as_deref().unwrap_or_default(),
            anything,
        );
        report.needs(&path.field("resource"), &resource.resource, env::resource_name);
    }
}

fn projected(report: &mut Report<'_>, path: &Path<'_>, volume: &ProjectedVolumeSource) {
    mode(report, &path.field("defaultMode"), volume.default_mode);
    for (index, source) in each(volume.sources.as_ref()) {
        projection(report, &path.field("sources").index(index), source);
    }
}

fn projection(report: &mut Report<'_>, path: &Path<'_>, source: &VolumeProjection) {
    report.just_one(
        path,
        &[
            ("configMap", source.config_map.is_some()),
            ("secret", source.secret.is_some()),
            ("downwardAPI", source.downward_api.is_some()),
            ("serviceAccountToken", source.service_account_token.is_some()),
            ("clusterTrustBundle", source.cluster_trust_bundle.is_some()),
            ("podCertificate", source.pod_certificate.is_some()),
        ],
    );
    if let Some(map) = source.config_map.as_ref() {
        report.needs(&path.field("configMap").field("name"), &map.name, anything);
        items(report, &path.field("configMap"), map.items.as_ref());
    }
    if let Some(secret) = source.secret.as_ref() {
        report.needs(&path.field("secret").field("name"), &secret.name, anything);
        items(report, &path.field("secret"), secret.items.as_ref());
    }
    for (index, file) in each(source.downward_api.as_ref().and_then(|d| d.items.as_ref())) {
        downward_file(report, &path.field("downwardAPI").field("items").index(index), file);
    }
    if let Some(token) = source.service_account_token.as_ref() {
        let path = path.field("serviceAccountToken");
        report.needs(&path.field("path"), &token.path, names::projected_path);
        if let Some(seconds) = token.expiration_seconds.filter(|s| !(600..=1 << 32).contains(s)) {
            report.invalid(&path.field("expirationSeconds"), seconds, "must be from 600 to 4294967296");
        }
    }
    if let Some(bundle) = source.cluster_trust_bundle.as_ref() {
        report.needs(&path.field("clusterTrustBundle").field("path"), &bundle.path, names::projected_path);
    }
}

fn empty_dir(report: &mut Report<'_>, path: &Path<'_>, dir: &EmptyDirVolumeSource) {
    let medium = dir.medium.as_deref().unwrap_or_default();
    if !medium.starts_with("HugePages-") {
        report.one_of(&path.field("medium"), dir.medium.as_ref(), &["Memory", "HugePages"]);
    }
    if let Some(limit) = dir.size_limit.as_ref() {
        resources::quantity(report, &path.field("sizeLimit"), limit);
    }
    mode(report, &path.field("mode"), dir.mode);
}

fn iscsi(report: &mut Report<'_>, path: &Path<'_>, volume: &ISCSIVolumeSource) {
    report.needs(&path.field("targetPortal"), &volume.target_portal, anything);
    report.needs(&path.field("iqn"), &volume.iqn, |iqn| {
        let holds = is_iscsi_name(iqn);
        if holds { Ok(()) } else { Err("must be iqn.YYYY-MM.DOMAIN:NAME, or eui. or naa. and its digits") }
    });
    if !(0..=255).contains(&volume.lun) {
        report.invalid(&path.field("lun"), volume.lun, "must be from 0 to 255");
    }
}

/// The three forms of an iSCSI name that the API takes.
fn is_iscsi_name(name: &str) -> bool {
    let digits = |text: &str, n: usize| text.len() == n && text.chars().all(|c| c.is_ascii_digit());
    let word = |text: &str, n: usize| text.len() == n && text.chars().all(|c| c.is_ascii_alphanumeric());
    let month = |text: &str| text.split_once('-').is_some_and(|(y, m)| digits(y, 4) && digits(m, 2));
    let domain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
    };
    let target =
        |text: &str| !text.is_empty() && !text.contains(|c: char| ",;*&$|".contains(c) || c.is_whitespace());
    match name.split_once('.') {
        Some(("iqn", rest)) => rest.split_once('.').is_some_and(|(date, rest)| {
            month(date) && rest.split_once(':').is_some_and(|(d, name)| domain(d) && target(name))
        }),
        Some(("eui", id)) => word(id, 16),
        Some(("naa", id)) => word(id, 32),
        _ => false,
    }
}

fn fc(report: &mut Report<'_>, path: &Path<'_>, volume: &FCVolumeSource) {
    let is_set = |list: Option<&Vec<String>>| list.is_some_and(|l| !l.is_empty());
    let (targets, ids) = (is_set(volume.target_wwns.as_ref()), is_set(volume.wwids.as_ref()));
    report.just_one(path, &[("targetWWNs", targets), ("wwids", ids)]);
    match volume.lun {
        Some(lun) if !(0..=255).contains(&lun) => {
            report.invalid(&path.field("lun"), lun, "must be from 0 to 255")
        }
        None if targets => report.required(&path.field("lun")),
        _ => {}
    }
}
