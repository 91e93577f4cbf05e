//! Volumes that several sources write files to.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, PodCertificateProjection, ProjectedVolumeSource, VolumeProjection,
};

use super::pod::Pod;
use super::report::{Report, each, shown};
use super::sources::{downward_file, items, mode};
use super::{names, selectors};
use crate::finding::Problem;
use crate::place::Path;

pub(super) fn volume(
    report: &mut Report<'_>,
    path: &Path<'_>,
    volume: &ProjectedVolumeSource,
    pod: &Pod<'_>,
) {
    mode(report, &path.field("defaultMode"), volume.default_mode);
    let mut files = BTreeSet::new();
    for (index, source) in each(volume.sources.as_ref()) {
        let list = path.field("sources");
        let path = list.index(index);
        projection(report, &path, source);
        unique(report, &path, source, &mut files);
        let account = [pod.spec.service_account_name.as_ref(), pod.spec.service_account.as_ref()];
        let has_account = account.into_iter().flatten().any(|name| !name.is_empty());
        if pod.is_mirror && source.service_account_token.is_some() && !has_account {
            report.forbidden(&path.field("serviceAccountToken"), "only with a serviceAccountName");
        }
    }
}

/// No two sources write the same file.
fn unique<'a>(
    report: &mut Report<'_>,
    path: &Path<'_>,
    source: &'a VolumeProjection,
    files: &mut BTreeSet<&'a str>,
) {
    let map = source.config_map.iter().flat_map(|map| map.items.iter().flatten());
    let secret = source.secret.iter().flat_map(|secret| secret.items.iter().flatten());
    let downward = source.downward_api.iter().flat_map(|downward| downward.items.iter().flatten());
    let bundle = source.cluster_trust_bundle.iter().map(|bundle| bundle.path.as_str());
    let certificate = source.pod_certificate.iter().flat_map(|certificate| {
        let paths =
            [&certificate.credential_bundle_path, &certificate.key_path, &certificate.certificate_chain_path];
        paths.into_iter().flatten().map(String::as_str)
    });
    let written = map.chain(secret).map(|item| item.path.as_str());
    let all = written.chain(downward.map(|file| file.path.as_str())).chain(bundle).chain(certificate);
    for file in all.filter(|file| !file.is_empty()) {
        if !files.insert(file) {
            report.add(path, Problem::Duplicate { value: shown(file) });
        }
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
        report.present(&path.field("configMap").field("name"), &map.name);
        items(report, &path.field("configMap"), map.items.as_ref());
    }
    if let Some(secret) = source.secret.as_ref() {
        report.present(&path.field("secret").field("name"), &secret.name);
        items(report, &path.field("secret"), secret.items.as_ref());
    }
    for (index, file) in each(source.downward_api.as_ref().and_then(|d| d.items.as_ref())) {
        downward_file(report, &path.field("downwardAPI").field("items").index(index), file);
    }
    if let Some(token) = source.service_account_token.as_ref() {
        let path = path.field("serviceAccountToken");
        report.needs(&path.field("path"), &token.path, names::projected_path);
        report.ranged(&path.field("expirationSeconds"), token.expiration_seconds, 600..=1 << 32);
    }
    if let Some(bundle) = source.cluster_trust_bundle.as_ref() {
        trust_bundle(report, &path.field("clusterTrustBundle"), bundle);
    }
    if let Some(certificate) = source.pod_certificate.as_ref() {
        self::certificate(report, &path.field("podCertificate"), certificate);
    }
}

fn trust_bundle(report: &mut Report<'_>, path: &Path<'_>, bundle: &ClusterTrustBundleProjection) {
    report.needs(&path.field("path"), &bundle.path, names::projected_path);
    let (name, signer) = (bundle.name.as_ref(), bundle.signer_name.as_ref());
    report.just_one(path, &[("name", name.is_some()), ("signerName", signer.is_some())]);
    if let Some(name) = name {
        report.needs(&path.field("name"), name, names::trust_bundle);
        if bundle.label_selector.is_some() {
            report.forbidden(&path.field("labelSelector"), "not with a name");
        }
    }
    if let Some(signer) = signer {
        report.needs(&path.field("signerName"), signer, names::signer);
        selectors::labels(report, &path.field("labelSelector"), bundle.label_selector.as_ref());
    }
}

fn certificate(report: &mut Report<'_>, path: &Path<'_>, certificate: &PodCertificateProjection) {
    report.needs(&path.field("signerName"), &certificate.signer_name, names::signer);
    let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    report.choice(&path.field("keyType"), &certificate.key_type, &kinds);
    // Kubernetes' own signers give a day at most, others 91.
    let days = if is_kubernetes(&certificate.signer_name) { 1 } else { 91 };
    let most = days * 24 * 60 * 60;
    report.ranged(&path.field("maxExpirationSeconds"), certificate.max_expiration_seconds, 3600..=most);
    for (key, _) in certificate.user_annotations.iter().flatten() {
        let path = path.field("userAnnotations");
        report.needs(&path.field(key), &key.to_ascii_lowercase(), |key| match key.contains('/') {
            true => names::qualified(key),
            false => Err("must have a domain before it"),
        });
    }
    let paths = [
        ("credentialBundlePath", certificate.credential_bundle_path.as_ref()),
        ("keyPath", certificate.key_path.as_ref()),
        ("certificateChainPath", certificate.certificate_chain_path.as_ref()),
    ];
    for (field, value) in paths {
        report.may(&path.field(field), value, names::projected_path);
    }
    if paths.iter().all(|(_, value)| value.is_none_or(String::is_empty)) {
        report.required(&path.field("credentialBundlePath"));
    }
}

fn is_kubernetes(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}
