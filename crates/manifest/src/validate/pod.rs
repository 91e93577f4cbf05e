use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodSpec, Toleration};
use plan::{Gate, Gates};

use super::report::{Report, each, shown};
use super::{containers, host, metadata, names, security, volumes};
use crate::finding::Problem;
use crate::object::{PodRef, Resource};
use crate::place::Path;

/// A pod under its gates, as far as its parts depend on it.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a PodSpec,
    /// Volumes that its owner makes for it.
    claimed: Vec<&'a str>,
    pub(super) gates: &'a Gates,
    /// Whether it asks for a user namespace and the gate lets it.
    pub(super) is_isolated: bool,
    pub(super) os: Option<&'a str>,
}

pub(super) fn pod(report: &mut Report<'_>, root: &Path<'_>, found: &PodRef<'_>, gates: &Gates) {
    let spec = found.spec;
    let pod = Pod {
        spec,
        claimed: found.claim_templates().collect(),
        gates,
        is_isolated: spec.host_users == Some(false) && gates.on(Gate::UserNamespacesSupport),
        os: spec.os.as_ref().map(|os| os.name.as_str()),
    };
    if let (Some(own), false) = (found.metadata, found.steps.is_empty()) {
        metadata::labels_and_annotations(report, &root.field("metadata"), own);
    }
    let path = root.field("spec");
    restart_policy(report, &path, found);
    plain_fields(report, &path, spec);
    dns(report, &path, spec);
    each(spec.host_aliases.as_ref())
        .for_each(|(i, alias)| host_alias(report, &path.field("hostAliases").index(i), alias));
    each(spec.tolerations.as_ref())
        .for_each(|(i, t)| toleration(report, &path.field("tolerations").index(i), t));
    host::pod(report, &path, &pod);
    security::pod(report, &path, &pod);
    volumes::volumes(report, &path, &pod);
    containers::all(report, &path, &pod);
}

fn restart_policy(report: &mut Report<'_>, path: &Path<'_>, found: &PodRef<'_>) {
    let path = path.field("restartPolicy");
    let policy = found.spec.restart_policy.as_ref();
    match &found.object.resource {
        Resource::Pod(_) => report.one_of(&path, policy, &["Always", "OnFailure", "Never"]),
        Resource::Job(_) | Resource::CronJob(_) if policy.is_none() => report.add(
            &path,
            Problem::NotSupported {
                value: "Always (the default)".into(),
                allowed: vec!["OnFailure", "Never"],
            },
        ),
        Resource::Job(_) | Resource::CronJob(_) => report.one_of(&path, policy, &["OnFailure", "Never"]),
        _ => report.one_of(&path, policy, &["Always"]),
    }
}

fn plain_fields(report: &mut Report<'_>, path: &Path<'_>, spec: &PodSpec) {
    report.may(&path.field("hostname"), spec.hostname.as_ref(), names::dns_label);
    report.may(&path.field("subdomain"), spec.subdomain.as_ref(), names::dns_label);
    report.may(&path.field("nodeName"), spec.node_name.as_ref(), names::dns_subdomain);
    report.may(&path.field("serviceAccountName"), spec.service_account_name.as_ref(), names::dns_subdomain);
    report.may(&path.field("runtimeClassName"), spec.runtime_class_name.as_ref(), names::dns_subdomain);
    report.may(&path.field("priorityClassName"), spec.priority_class_name.as_ref(), names::dns_subdomain);
    report.one_of(
        &path.field("preemptionPolicy"),
        spec.preemption_policy.as_ref(),
        &["Never", "PreemptLowerPriority"],
    );
    metadata::labels(report, &path.field("nodeSelector"), spec.node_selector.as_ref());
    if let Some(seconds) = spec.active_deadline_seconds.filter(|s| !(1..=i64::from(i32::MAX)).contains(s)) {
        report.invalid(&path.field("activeDeadlineSeconds"), seconds, "must be from 1 to 2147483647");
    }
    for (index, gate) in each(spec.readiness_gates.as_ref()) {
        let path = path.field("readinessGates");
        report.needs(&path.index(index).field("conditionType"), &gate.condition_type, names::qualified);
    }
    hostname_override(report, path, spec);
}

fn hostname_override(report: &mut Report<'_>, path: &Path<'_>, spec: &PodSpec) {
    let Some(name) = spec.hostname_override.as_ref() else { return };
    let path = path.field("hostnameOverride");
    report.needs(&path, name, names::dns_subdomain);
    if name.len() > 64 {
        report.invalid(&path, shown(name), "must be at most 64 characters");
    }
    if spec.host_network == Some(true) || spec.set_hostname_as_fqdn == Some(true) {
        report.forbidden(&path, "not with hostNetwork or setHostnameAsFQDN");
    }
}

fn dns(report: &mut Report<'_>, path: &Path<'_>, spec: &PodSpec) {
    let policies = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    report.one_of(&path.field("dnsPolicy"), spec.dns_policy.as_ref(), &policies);
    let config = spec.dns_config.as_ref();
    let path = path.field("dnsConfig");
    let servers = config.and_then(|c| c.nameservers.as_ref()).map_or(0, Vec::len);
    if spec.dns_policy.as_deref() == Some("None") && servers == 0 {
        report.required(&path.field("nameservers"));
    }
    if let Some(config) = config {
        dns_config(report, &path, config);
    }
}

fn dns_config(report: &mut Report<'_>, path: &Path<'_>, config: &PodDNSConfig) {
    let servers = path.field("nameservers");
    for (index, server) in each(config.nameservers.as_ref()) {
        report.needs(&servers.index(index), server, names::ip);
    }
    let count = config.nameservers.as_ref().map_or(0, Vec::len);
    if count > 3 {
        report.invalid(&servers, count, "there may be at most 3");
    }
    let searches = path.field("searches");
    let list = config.searches.as_ref();
    let length: usize = list.into_iter().flatten().map(|s| s.len() + 1).sum();
    if list.map_or(0, Vec::len) > 32 || length > 2049 {
        report.invalid(
            &searches,
            format!("{length} characters"),
            "there may be at most 32 of 2048 characters",
        );
    }
    for (index, option) in each(config.options.as_ref()) {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            report.required(&path.field("options").index(index).field("name"));
        }
    }
}

fn host_alias(report: &mut Report<'_>, path: &Path<'_>, alias: &HostAlias) {
    report.needs(&path.field("ip"), &alias.ip, names::ip);
    for (index, name) in each(alias.hostnames.as_ref()) {
        report.needs(&path.field("hostnames").index(index), name, names::dns_subdomain);
    }
}

fn toleration(report: &mut Report<'_>, path: &Path<'_>, toleration: &Toleration) {
    report.one_of(&path.field("operator"), toleration.operator.as_ref(), &["Exists", "Equal", "Lt", "Gt"]);
    report.one_of(
        &path.field("effect"),
        toleration.effect.as_ref(),
        &["NoSchedule", "PreferNoSchedule", "NoExecute"],
    );
    let exists = toleration.operator.as_deref() == Some("Exists");
    report.may(&path.field("key"), toleration.key.as_ref(), names::qualified);
    if toleration.key.as_deref().unwrap_or_default().is_empty() && !exists {
        report.invalid(&path.field("operator"), "Equal", "must be Exists when there is no key");
    }
    if exists && toleration.value.as_ref().is_some_and(|v| !v.is_empty()) {
        report.invalid(&path.field("operator"), "Exists", "must not be with a value");
    }
    if toleration.toleration_seconds.is_some() && toleration.effect.as_deref() != Some("NoExecute") {
        report.forbidden(&path.field("tolerationSeconds"), "only with effect NoExecute");
    }
}

/// The names of a pod's volumes.
pub(super) fn volume_names<'a>(pod: &Pod<'a>) -> BTreeSet<&'a str> {
    let own = pod.spec.volumes.iter().flatten().map(|v| v.name.as_str());
    own.chain(pod.claimed.iter().copied()).collect()
}
