use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector,
};

use types::Quantity;

use super::pod::Pod;
use super::report::{Report, each, shown};
use super::{names, resources};
use crate::finding::Problem;
use crate::place::Path;

pub(super) fn env(report: &mut Report<'_>, path: &Path<'_>, container: &Container, pod: &Pod<'_>) {
    for (index, var) in each(container.env.as_ref()) {
        variable(report, &path.field("env").index(index), var, pod);
    }
    for (index, source) in each(container.env_from.as_ref()) {
        from(report, &path.field("envFrom").index(index), source);
    }
}

fn variable(report: &mut Report<'_>, path: &Path<'_>, var: &EnvVar, pod: &Pod<'_>) {
    report.needs(&path.field("name"), &var.name, names::env_name);
    let Some(source) = var.value_from.as_ref() else { return };
    if var.value.as_ref().is_some_and(|v| !v.is_empty()) {
        report.invalid(&path.field("valueFrom"), shown(&var.name), "not with a value that is not empty");
    }
    value_from(report, &path.field("valueFrom"), source, pod);
}

fn value_from(report: &mut Report<'_>, path: &Path<'_>, source: &EnvVarSource, pod: &Pod<'_>) {
    report.just_one(
        path,
        &[
            ("fieldRef", source.field_ref.is_some()),
            ("resourceFieldRef", source.resource_field_ref.is_some()),
            ("configMapKeyRef", source.config_map_key_ref.is_some()),
            ("secretKeyRef", source.secret_key_ref.is_some()),
            ("fileKeyRef", source.file_key_ref.is_some()),
        ],
    );
    if let Some(field) = source.field_ref.as_ref() {
        field_ref(report, &path.field("fieldRef"), field, IN_ENV);
    }
    if let Some(key) = source.config_map_key_ref.as_ref() {
        let path = path.field("configMapKeyRef");
        report.needs(&path.field("key"), &key.key, names::config_key);
        report.needs(&path.field("name"), &key.name, names::dns_subdomain);
    }
    if let Some(key) = source.secret_key_ref.as_ref() {
        let path = path.field("secretKeyRef");
        report.needs(&path.field("key"), &key.key, names::config_key);
        report.needs(&path.field("name"), &key.name, names::dns_subdomain);
    }
    if let Some(resource) = source.resource_field_ref.as_ref() {
        self::resource(report, &path.field("resourceFieldRef"), resource);
    }
    if let Some(file) = source.file_key_ref.as_ref() {
        let path = path.field("fileKeyRef");
        report.needs(&path.field("key"), &file.key, names::env_name);
        report.needs(&path.field("path"), &file.path, names::no_climbing);
        report.needs(&path.field("volumeName"), &file.volume_name, names::dns_label);
        let is_empty_dir =
            |v: &k8s_openapi::api::core::v1::Volume| v.name == file.volume_name && v.empty_dir.is_some();
        if !pod.spec.volumes.iter().flatten().any(is_empty_dir) {
            let problem = Problem::NotFound { what: "emptyDir volume", name: file.volume_name.clone() };
            report.add(&path.field("volumeName"), problem);
        }
    }
}

fn from(report: &mut Report<'_>, path: &Path<'_>, source: &EnvFromSource) {
    report.may(&path.field("prefix"), source.prefix.as_ref(), names::env_name);
    let refs =
        [("configMapRef", source.config_map_ref.is_some()), ("secretRef", source.secret_ref.is_some())];
    report.just_one(path, &refs);
    if let Some(map) = source.config_map_ref.as_ref() {
        report.needs(&path.field("configMapRef").field("name"), &map.name, names::start_or_name);
    }
    if let Some(secret) = source.secret_ref.as_ref() {
        report.needs(&path.field("secretRef").field("name"), &secret.name, names::start_or_name);
    }
}

/// Fields of a pod that a variable may hold.
const IN_ENV: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of a pod that a file may hold.
pub(super) const IN_FILE: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"];

pub(super) fn field_ref(
    report: &mut Report<'_>,
    path: &Path<'_>,
    field: &ObjectFieldSelector,
    allowed: &[&'static str],
) {
    let version = field.api_version.as_ref();
    report.one_of(&path.field("apiVersion"), version, &["v1"]);
    let path = path.field("fieldPath");
    let value = &field.field_path;
    let of = |start: &str| value.strip_prefix(start).and_then(|rest| rest.strip_suffix("']"));
    let annotation = of("metadata.annotations['").map(str::to_ascii_lowercase);
    match of("metadata.labels['").map(str::to_owned).or(annotation) {
        Some(key) => report.needs(&path, &key, names::qualified),
        None if value.is_empty() => report.required(&path),
        None => report.one_of(&path, Some(value), allowed),
    }
}

pub(super) fn resource(report: &mut Report<'_>, path: &Path<'_>, field: &ResourceFieldSelector) {
    report.needs(&path.field("resource"), &field.resource, resource_name);
    let Some(divisor) = field.divisor.as_ref() else { return };
    let path = path.field("divisor");
    let Some(amount) = resources::readable(report, &path, divisor) else { return };
    let allowed: &[&str] = if field.resource.ends_with(".cpu") {
        &["1m", "1"]
    } else {
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
    };
    // The server compares texts, and some ways to write the same amount are not the same text to it: +1, 1e0, 01.
    if amount != Quantity::ZERO && !allowed.contains(&divisor.0.as_str()) {
        report.invalid(
            &path,
            shown(&divisor.0),
            "must be one of its unit: 1m or 1 for cpu, else 1, 1k to 1E, 1Ki to 1Ei",
        );
    }
}

fn resource_name(name: &str) -> Result<(), &'static str> {
    let kinds = ["cpu", "memory", "ephemeral-storage"];
    let is_known = name.split_once('.').is_some_and(|(side, kind)| {
        matches!(side, "limits" | "requests") && (kinds.contains(&kind) || kind.starts_with("hugepages-"))
    });
    if is_known {
        Ok(())
    } else {
        Err("must be limits or requests of cpu, memory, ephemeral-storage or huge pages")
    }
}
