//! Annotations of a pod that have a meaning of their own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, SeccompProfile, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::containers;
use super::names;
use super::placement;
use super::pod::Pod;
use super::report::{Report, shown};
use crate::place::Path;

const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR_OF: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn is_mirror(metadata: Option<&ObjectMeta>) -> bool {
    let mirror =
        metadata.and_then(|m| m.annotations.as_ref()).and_then(|annotations| annotations.get(MIRROR));
    mirror.is_some_and(|text| !text.is_empty())
}

/// `root` is the pod or the template.
pub(super) fn all(report: &mut Report<'_>, root: &Path<'_>, pod: &Pod<'_>) {
    let Some(annotations) = pod.metadata.and_then(|m| m.annotations.as_ref()) else { return };
    let metadata = root.field("metadata");
    let path = metadata.field("annotations");
    if annotations.contains_key(MIRROR) && pod.spec.node_name.as_deref().unwrap_or_default().is_empty() {
        report.forbidden(&path.field(MIRROR), "only with a nodeName");
    }
    if let Some(text) = annotations.get(TOLERATIONS).filter(|text| !text.is_empty()) {
        let path = path.field(TOLERATIONS);
        match serde_json::from_str::<Vec<Toleration>>(text) {
            Ok(list) => placement::tolerations(report, &path, Some(&list)),
            Err(_) => report.invalid(&path, shown(text), "must be a list of tolerations in JSON"),
        }
    }
    if let Some(cost) = annotations.get(DELETION_COST).filter(|cost| !is_cost(cost)) {
        report.invalid(&path.field(DELETION_COST), shown(cost), "must be a whole number of 32 bits");
    }
    for (key, profile) in annotations {
        let path = path.field(key);
        if (key == SECCOMP || key.starts_with(SECCOMP_OF)) && !is_seccomp(profile) {
            report.invalid(&path, shown(profile), "must be a seccomp profile");
        }
        if let Some(name) = key.strip_prefix(APPARMOR_OF) {
            if !every(pod).iter().any(|(_, _, container)| container.name == name) {
                report.invalid(&path, shown(name), "the pod has no such container");
            }
            apparmor(report, &path, profile);
        }
    }
    fields(report, root, pod, annotations);
}

fn is_cost(text: &str) -> bool {
    let is_plain = text == "0" || text.starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    is_plain && text.parse::<i32>().is_ok()
}

fn is_seccomp(profile: &str) -> bool {
    match profile.strip_prefix("localhost/") {
        Some(file) => names::local_path(file).is_ok(),
        None => matches!(profile, "runtime/default" | "docker/default" | "unconfined"),
    }
}

fn apparmor(report: &mut Report<'_>, path: &Path<'_>, profile: &str) {
    let is_known = matches!(profile, "" | "runtime/default" | "unconfined");
    if !is_known && !profile.starts_with("localhost/") {
        report.invalid(path, shown(profile), "must be an AppArmor profile");
    }
}

/// The containers of all lists with the names of their lists.
fn every(pod: &Pod<'_>) -> Vec<(&'static str, usize, Container)> {
    let list = |name: &'static str, of: Vec<Container>| {
        of.into_iter().enumerate().map(move |(index, container)| (name, index, container))
    };
    let init = pod.spec.init_containers.clone().unwrap_or_default();
    let debug = pod.spec.ephemeral_containers.iter().flatten().map(containers::as_container).collect();
    list("initContainers", init)
        .chain(list("containers", pod.spec.containers.clone()))
        .chain(list("ephemeralContainers", debug))
        .collect()
}

/// An annotation and the field that replaces it must say the same.
fn fields(report: &mut Report<'_>, root: &Path<'_>, pod: &Pod<'_>, annotations: &BTreeMap<String, String>) {
    let spec = root.field("spec");
    let context = pod.spec.security_context.as_ref();
    let seccomp = context.and_then(|c| c.seccomp_profile.as_ref());
    if let (Some(text), Some(profile)) = (annotations.get(SECCOMP), seccomp)
        && !is_same_seccomp(text, profile)
    {
        let path = spec.field("securityContext");
        report.forbidden(&path.field("seccompProfile"), "the annotation says something else");
    }
    let of_pod = context.and_then(|c| c.app_armor_profile.as_ref());
    for (list, index, container) in every(pod) {
        let list = spec.field(list);
        let item = list.index(index);
        let path = item.field("securityContext");
        let own = container.security_context.as_ref();
        let seccomp = own.and_then(|c| c.seccomp_profile.as_ref());
        let text = annotations.get(&format!("{SECCOMP_OF}{}", container.name));
        if let (Some(text), Some(profile)) = (text, seccomp)
            && !is_same_seccomp(text, profile)
        {
            report.forbidden(&path.field("seccompProfile"), "the annotation says something else");
        }
        let Some(text) = annotations.get(&format!("{APPARMOR_OF}{}", container.name)) else { continue };
        let own = own.and_then(|c| c.app_armor_profile.as_ref());
        // The API server turns a pod's annotation into the field, where there is none.
        let is_turned = pod.is_pod && own.is_none() && is_apparmor_field(text);
        let profile = own.or(of_pod).filter(|_| !is_turned && pod.os != Some("windows"));
        if profile.is_some_and(|profile| !is_same_apparmor(text, profile)) {
            report.forbidden(&path.field("appArmorProfile"), "the annotation says something else");
        }
    }
}

fn is_same_seccomp(text: &str, profile: &SeccompProfile) -> bool {
    match profile.type_.as_str() {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => matches!(text, "runtime/default" | "docker/default"),
        "Localhost" => is_file(text, profile.localhost_profile.as_ref()),
        _ => true,
    }
}

fn is_same_apparmor(text: &str, profile: &AppArmorProfile) -> bool {
    match profile.type_.as_str() {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => text == "runtime/default",
        "Localhost" => is_file(text, profile.localhost_profile.as_ref()),
        _ => true,
    }
}

fn is_file(text: &str, profile: Option<&String>) -> bool {
    match (text.strip_prefix("localhost/"), profile) {
        (Some(file), Some(profile)) => file == profile,
        _ => false,
    }
}

/// Whether the text has the form that becomes a valid field.
fn is_apparmor_field(text: &str) -> bool {
    match text.strip_prefix("localhost/") {
        Some(file) => !file.is_empty() && file.trim() == file && file.len() <= 4095,
        None => matches!(text, "unconfined" | "runtime/default"),
    }
}
