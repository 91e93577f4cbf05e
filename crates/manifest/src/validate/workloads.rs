//! What a workload says beside its pods: how many, which, and how they are replaced.

use k8s_openapi::api::apps::v1::{
    DaemonSet, Deployment, ReplicaSet, RollingUpdateDeployment, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::report::{Report, each, shown};
use super::{claims, names, selectors};
use crate::object::Resource;
use crate::place::Path;

/// The rules of the object's own kind; pods and jobs have theirs elsewhere.
pub(super) fn all(report: &mut Report<'_>, root: &Path<'_>, resource: &Resource) {
    let path = root.field("spec");
    match resource {
        Resource::Deployment(o) => deployment(report, &path, o),
        Resource::ReplicaSet(o) => replica_set(report, &path, o),
        Resource::StatefulSet(o) => stateful_set(report, &path, o),
        Resource::DaemonSet(o) => daemon_set(report, &path, o),
        _ => {}
    }
}

/// The selector must select the pods of the template.
fn selector(
    report: &mut Report<'_>,
    path: &Path<'_>,
    selector: &LabelSelector,
    template: Option<&PodTemplateSpec>,
) {
    let count = selector.match_labels.as_ref().map_or(0, std::collections::BTreeMap::len)
        + selector.match_expressions.as_ref().map_or(0, Vec::len);
    if count == 0 {
        return report.required(&path.field("selector"));
    }
    selectors::labels(report, &path.field("selector"), Some(selector));
    let labels = template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref());
    if !selectors::selects(selector, labels) {
        let path = path.field("template");
        let path = path.field("metadata");
        report.invalid(&path.field("labels"), format!("{labels:?}"), "the selector does not select them");
    }
}

/// A pod that a controller keeps running has no deadline.
fn no_deadline(report: &mut Report<'_>, path: &Path<'_>, template: Option<&PodTemplateSpec>) {
    let deadline = template.and_then(|t| t.spec.as_ref()).and_then(|s| s.active_deadline_seconds);
    if deadline.is_some() {
        let path = path.field("template");
        let path = path.field("spec");
        report.forbidden(&path.field("activeDeadlineSeconds"), "only in a Pod or the template of a Job");
    }
}

fn deployment(report: &mut Report<'_>, path: &Path<'_>, object: &Deployment) {
    let spec = &object.spec;
    report.natural(&path.field("replicas"), spec.replicas);
    report.natural(&path.field("minReadySeconds"), spec.min_ready_seconds);
    report.natural(&path.field("revisionHistoryLimit"), spec.revision_history_limit);
    selector(report, path, &spec.selector, Some(&spec.template));
    no_deadline(report, path, Some(&spec.template));
    let deadline = spec.progress_deadline_seconds.unwrap_or(600);
    let field = path.field("progressDeadlineSeconds");
    report.natural(&field, Some(deadline));
    if deadline <= spec.min_ready_seconds.unwrap_or_default() {
        report.invalid(&field, deadline, "must be greater than minReadySeconds");
    }
    let Some(strategy) = spec.strategy.as_ref() else { return };
    let path = path.field("strategy");
    report.one_of(&path.field("type"), strategy.type_.as_ref(), &["Recreate", "RollingUpdate"]);
    match (strategy.type_.as_deref().unwrap_or_default(), strategy.rolling_update.as_ref()) {
        ("Recreate", Some(_)) => report.forbidden(&path.field("rollingUpdate"), "not with type Recreate"),
        ("" | "RollingUpdate", Some(update)) => {
            rolling_deployment(report, &path.field("rollingUpdate"), update)
        }
        _ => {}
    }
}

fn rolling_deployment(report: &mut Report<'_>, path: &Path<'_>, update: &RollingUpdateDeployment) {
    let quarter = IntOrString::String("25%".into());
    let unavailable = update.max_unavailable.as_ref().unwrap_or(&quarter);
    let surge = update.max_surge.as_ref().unwrap_or(&quarter);
    share(report, &path.field("maxUnavailable"), unavailable, Share::OfAll);
    share(report, &path.field("maxSurge"), surge, Share::OfAny);
    if amount(unavailable) == 0 && amount(surge) == 0 {
        report.invalid(&path.field("maxUnavailable"), 0, "must not be 0 when maxSurge is 0");
    }
}

/// Of what a percentage is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// Pods that there are: at most all.
    OfAll,
    /// Pods that come on top.
    OfAny,
}

/// A number of pods, or a percentage.
fn share(report: &mut Report<'_>, path: &Path<'_>, value: &IntOrString, share: Share) {
    match value {
        IntOrString::Int(number) => report.natural(path, Some(*number)),
        IntOrString::String(text) => match percentage(text) {
            None => report.invalid(path, shown(text), "must be a number, or one with '%'"),
            Some(percent) if percent > 100 && share == Share::OfAll => {
                report.invalid(path, shown(text), "must not be more than 100%");
            }
            Some(_) => {}
        },
    }
}

fn percentage(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?;
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// The number or percentage; 0 where it is neither.
fn amount(value: &IntOrString) -> i64 {
    match value {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(text) => match percentage(text) {
            Some(percent) => i64::try_from(percent).unwrap_or(i64::MAX),
            None => text.parse().unwrap_or_default(),
        },
    }
}

fn replica_set(report: &mut Report<'_>, path: &Path<'_>, object: &ReplicaSet) {
    let spec = &object.spec;
    report.natural(&path.field("replicas"), spec.replicas);
    report.natural(&path.field("minReadySeconds"), spec.min_ready_seconds);
    selector(report, path, &spec.selector, spec.template.as_ref());
    no_deadline(report, path, spec.template.as_ref());
}

fn daemon_set(report: &mut Report<'_>, path: &Path<'_>, object: &DaemonSet) {
    let spec = &object.spec;
    report.natural(&path.field("minReadySeconds"), spec.min_ready_seconds);
    report.natural(&path.field("revisionHistoryLimit"), spec.revision_history_limit);
    selector(report, path, &spec.selector, Some(&spec.template));
    no_deadline(report, path, Some(&spec.template));
    let Some(strategy) = spec.update_strategy.as_ref() else { return };
    let path = path.field("updateStrategy");
    report.one_of(&path.field("type"), strategy.type_.as_ref(), &["OnDelete", "RollingUpdate"]);
    let is_rolling = matches!(strategy.type_.as_deref(), None | Some("" | "RollingUpdate"));
    let Some(update) = strategy.rolling_update.as_ref().filter(|_| is_rolling) else { return };
    let path = path.field("rollingUpdate");
    let (one, none) = (IntOrString::Int(1), IntOrString::Int(0));
    let unavailable = update.max_unavailable.as_ref().unwrap_or(&one);
    let surge = update.max_surge.as_ref().unwrap_or(&none);
    share(report, &path.field("maxUnavailable"), unavailable, Share::OfAll);
    share(report, &path.field("maxSurge"), surge, Share::OfAll);
    match (amount(unavailable) != 0, amount(surge) != 0) {
        (true, true) => report.forbidden(&path.field("maxSurge"), "maxUnavailable must be 0 with it"),
        (false, false) => {
            report.invalid(&path.field("maxUnavailable"), 0, "must not be 0 when maxSurge is 0");
        }
        _ => {}
    }
}

fn stateful_set(report: &mut Report<'_>, path: &Path<'_>, object: &StatefulSet) {
    let spec = &object.spec;
    report.natural(&path.field("replicas"), spec.replicas);
    report.natural(&path.field("minReadySeconds"), spec.min_ready_seconds);
    report.natural(&path.field("ordinals").field("start"), spec.ordinals.as_ref().and_then(|o| o.start));
    report.may(&path.field("serviceName"), spec.service_name.as_ref(), names::dns_label);
    let policies = ["OrderedReady", "Parallel"];
    report.one_of(&path.field("podManagementPolicy"), spec.pod_management_policy.as_ref(), &policies);
    selector(report, path, &spec.selector, Some(&spec.template));
    no_deadline(report, path, Some(&spec.template));
    if let Some(policy) = spec.persistent_volume_claim_retention_policy.as_ref() {
        let path = path.field("persistentVolumeClaimRetentionPolicy");
        report.one_of(&path.field("whenDeleted"), policy.when_deleted.as_ref(), &["Retain", "Delete"]);
        report.one_of(&path.field("whenScaled"), policy.when_scaled.as_ref(), &["Retain", "Delete"]);
    }
    for (index, template) in each(spec.volume_claim_templates.as_ref()) {
        let list = path.field("volumeClaimTemplates");
        let path = list.index(index);
        // It becomes a volume of this name.
        let name = template.metadata.name.as_deref().unwrap_or_default();
        report.needs(&path.field("metadata").field("name"), name, names::dns_label);
        claims::claim(report, &path, template.spec.as_ref());
    }
    stateful_update(report, &path.field("updateStrategy"), spec);
}

fn stateful_update(report: &mut Report<'_>, path: &Path<'_>, spec: &StatefulSetSpec) {
    let Some(strategy) = spec.update_strategy.as_ref() else { return };
    report.one_of(&path.field("type"), strategy.type_.as_ref(), &["OnDelete", "RollingUpdate"]);
    let Some(update) = strategy.rolling_update.as_ref() else { return };
    let path = path.field("rollingUpdate");
    if strategy.type_.as_deref() == Some("OnDelete") {
        return report.forbidden(&path, "not with type OnDelete");
    }
    report.natural(&path.field("partition"), update.partition);
    if let Some(unavailable) = update.max_unavailable.as_ref() {
        let path = path.field("maxUnavailable");
        share(report, &path, unavailable, Share::OfAll);
        if amount(unavailable) == 0 {
            report.invalid(&path, 0, "must not be 0");
        }
    }
}
