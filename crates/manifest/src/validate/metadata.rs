use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::names;
use super::report::{Report, shown};
use crate::place::Path;

/// All annotations of an object together may have this many bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// An object's own metadata: a name, or the start of one.
pub(super) fn object(report: &mut Report<'_>, root: &Path<'_>, metadata: &ObjectMeta) {
    let path = root.field("metadata");
    let has_start = metadata.generate_name.as_ref().is_some_and(|n| !n.is_empty());
    match metadata.name.as_deref() {
        None | Some("") if has_start => {}
        name => report.needs(&path.field("name"), name.unwrap_or_default(), names::dns_subdomain),
    }
    report.may(&path.field("namespace"), metadata.namespace.as_ref(), names::dns_label);
    labels_and_annotations(report, &path, metadata);
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
