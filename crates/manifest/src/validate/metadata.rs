use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::names;
use super::report::{Report, Rule, each, shown};
use crate::object::Resource;
use crate::place::Path;

/// All annotations of an object together may have this many bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// An object's own metadata: a name, or the start of one.
pub(super) fn object(report: &mut Report<'_>, root: &Path<'_>, resource: &Resource) {
    let path = root.field("metadata");
    let metadata = resource.metadata();
    let rule: Rule = match resource {
        Resource::StatefulSet(_) => names::dns_label,
        _ => names::dns_subdomain,
    };
    let start = metadata.generate_name.as_deref().unwrap_or_default();
    match metadata.name.as_deref() {
        None | Some("") if !start.is_empty() => {}
        name => report.needs(&path.field("name"), name.unwrap_or_default(), rule),
    }
    if !start.is_empty() {
        report.needs(&path.field("generateName"), &names::completed(start), rule);
    }
    // The server reads over the namespace of what is in none.
    let is_of_cluster = matches!(
        resource,
        Resource::PersistentVolume(_)
            | Resource::StorageClass(_)
            | Resource::CsiDriver(_)
            | Resource::Node(_)
            | Resource::RuntimeClass(_)
    );
    report.may(
        &path.field("namespace"),
        metadata.namespace.as_ref().filter(|_| !is_of_cluster),
        names::dns_label,
    );
    labels_and_annotations(report, &path, metadata);
    // The server counts the generations of pods and workloads itself.
    if matches!(resource, Resource::PersistentVolumeClaim(_) | Resource::PersistentVolume(_)) {
        report.natural(&path.field("generation"), metadata.generation);
    }
    owners(report, &path.field("ownerReferences"), metadata.owner_references.as_ref());
    finalizers(report, &path.field("finalizers"), metadata.finalizers.as_ref());
}

/// Whether the object comes from a server, which gives every object a version.
pub(super) fn is_stored(metadata: &ObjectMeta) -> bool {
    metadata.resource_version.as_ref().is_some_and(|version| !version.is_empty())
}

fn owners(report: &mut Report<'_>, path: &Path<'_>, owners: Option<&Vec<OwnerReference>>) {
    let mut is_controlled = false;
    for (index, owner) in each(owners) {
        let path = path.index(index);
        report.needs(&path.field("apiVersion"), &owner.api_version, names::group_version);
        report.present(&path.field("kind"), &owner.kind);
        report.present(&path.field("name"), &owner.name);
        report.present(&path.field("uid"), &owner.uid);
        if owner.api_version == "v1" && owner.kind == "Event" {
            report.forbidden(&path, "an Event owns nothing");
        }
        let is_controller = owner.controller == Some(true);
        if is_controller && is_controlled {
            report.forbidden(&path.field("controller"), "there may be only one controller");
        }
        is_controlled |= is_controller;
    }
}

fn finalizers(report: &mut Report<'_>, path: &Path<'_>, finalizers: Option<&Vec<String>>) {
    for (index, name) in each(finalizers) {
        report.needs(&path.index(index), name, names::finalizer);
    }
    let has = |wanted: &str| finalizers.into_iter().flatten().any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        report.forbidden(path, "orphan and foregroundDeletion exclude each other");
    }
}

/// What also a template's metadata may have.
pub(super) fn labels_and_annotations(report: &mut Report<'_>, path: &Path<'_>, metadata: &ObjectMeta) {
    labels(report, &path.field("labels"), metadata.labels.as_ref());
    let path = path.field("annotations");
    let annotations = metadata.annotations.iter().flatten();
    for (key, _) in annotations.clone() {
        report.needs(&path.field(key), &key.to_ascii_lowercase(), names::qualified);
    }
    let size: usize = annotations.map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_ANNOTATIONS {
        report.invalid(
            &path,
            format!("{size} bytes"),
            "all annotations together must be at most 262144 bytes",
        );
    }
}

pub(super) fn labels(report: &mut Report<'_>, path: &Path<'_>, labels: Option<&BTreeMap<String, String>>) {
    for (key, value) in labels.into_iter().flatten() {
        let path = path.field(key);
        report.needs(&path, key, names::qualified);
        if let Err(rule) = names::label_value(value) {
            report.invalid(&path, shown(value), rule);
        }
    }
}
