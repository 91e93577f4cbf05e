use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::{Gate, Gates};

use super::report::{Report, each, shown};
use super::{
    annotations, containers, host, metadata, names, placement, pod_resources, resources, security, volumes,
};
use crate::finding::Problem;
use crate::object::{PodRef, Resource};
use crate::place::Path;

/// A pod under its gates, as far as its parts depend on it.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a PodSpec,
    /// Its metadata, or that of the template.
    pub(super) metadata: Option<&'a ObjectMeta>,
    /// Whether it is one, and not what a workload makes its pods from.
    pub(super) is_pod: bool,
    /// Whether a server has stored it: what is refused only when an object is created does not count.
    pub(super) is_stored: bool,
    /// Whether it stands for a static pod: admission gives it no service account.
    pub(super) is_mirror: bool,
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
        metadata: found.metadata,
        is_pod: found.steps.is_empty(),
        is_stored: metadata::is_stored(found.object.resource.metadata()),
        is_mirror: found.steps.is_empty() && annotations::is_mirror(found.metadata),
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
    // A StatefulSet gives its pods their own names.
    if !matches!(found.object.resource, Resource::StatefulSet(_)) {
        report.may(&path.field("hostname"), spec.hostname.as_ref(), names::dns_label);
        report.may(&path.field("subdomain"), spec.subdomain.as_ref(), names::dns_label);
    }
    dns(report, &path, spec);
    each(spec.host_aliases.as_ref())
        .for_each(|(i, alias)| host_alias(report, &path.field("hostAliases").index(i), alias));
    let labels = found.metadata.filter(|_| pod.is_pod && !pod.is_stored).and_then(|m| m.labels.as_ref());
    placement::all(report, &path, spec, labels);
    annotations::all(report, root, &pod);
    scheduling(report, &path, &pod);
    resources::overhead(report, &path.field("overhead"), spec.overhead.as_ref());
    pod_resources::all(report, &path, &pod);
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
        Resource::Job(_) | Resource::CronJob(_) if policy.is_none_or(String::is_empty) => report.add(
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
    report.may(&path.field("nodeName"), spec.node_name.as_ref(), names::dns_subdomain);
    let account = spec.service_account_name.as_ref().filter(|name| !name.is_empty());
    let field = if account.is_some() { "serviceAccountName" } else { "serviceAccount" };
    report.may(&path.field(field), account.or(spec.service_account.as_ref()), names::dns_subdomain);
    if let Some(class) = spec.runtime_class_name.as_ref() {
        report.needs(&path.field("runtimeClassName"), class, names::dns_subdomain);
    }
    report.may(&path.field("priorityClassName"), spec.priority_class_name.as_ref(), names::dns_subdomain);
    report.exactly(
        &path.field("preemptionPolicy"),
        spec.preemption_policy.as_ref(),
        &["Never", "PreemptLowerPriority"],
    );
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
    for (index, domain) in each(list) {
        report.needs(&searches.index(index), domain, names::search_domain);
    }
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

/// What keeps a pod from being placed, and what it is placed with.
fn scheduling(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let mut seen = BTreeSet::new();
    let gates = path.field("schedulingGates");
    for (index, gate) in each(pod.spec.scheduling_gates.as_ref()) {
        let path = gates.index(index);
        report.needs(&path.field("name"), &gate.name, names::qualified);
        report.once(&path.field("name"), &gate.name, &mut seen);
    }
    let is_placed = pod.spec.node_name.as_ref().is_some_and(|name| !name.is_empty());
    if pod.is_pod && is_placed && !seen.is_empty() {
        report.forbidden(&path.field("nodeName"), "not while there are schedulingGates");
    }
    let mut seen = BTreeSet::new();
    for (index, claim) in each(pod.spec.resource_claims.as_ref()) {
        let list = path.field("resourceClaims");
        let path = list.index(index);
        report.needs(&path.field("name"), &claim.name, names::dns_label);
        report.once(&path.field("name"), &claim.name, &mut seen);
        let (own, template) =
            (claim.resource_claim_name.as_ref(), claim.resource_claim_template_name.as_ref());
        report.just_one(
            &path,
            &[("resourceClaimName", own.is_some()), ("resourceClaimTemplateName", template.is_some())],
        );
        for (field, name) in [("resourceClaimName", own), ("resourceClaimTemplateName", template)] {
            if let Some(name) = name {
                report.needs(&path.field(field), name, names::dns_subdomain);
            }
        }
    }
}

/// The names of a pod's volumes.
pub(super) fn volume_names<'a>(pod: &Pod<'a>) -> BTreeSet<&'a str> {
    let own = pod.spec.volumes.iter().flatten().map(|v| v.name.as_str());
    own.chain(pod.claimed.iter().copied()).collect()
}
