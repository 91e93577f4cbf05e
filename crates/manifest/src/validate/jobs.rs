//! Jobs, and the schedules that make them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::{
    CronJob, Job, JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicyRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::report::{Report, each, shown};
use super::{metadata, names, schedule, selectors};
use crate::place::Path;

/// An indexed job may run this many pods side by side, and have this many indexes fail.
const MOST_INDEXED: i32 = 100_000;
/// With more completions than that, each with retries of its own, the limits are lower.
const MOST_WITH_RETRIES: i32 = 10_000;

/// Labels that the server gives to the pods of a job.
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

pub(super) fn job(report: &mut Report<'_>, root: &Path<'_>, object: &Job) {
    let Some(spec) = object.spec.as_ref() else { return };
    let path = root.field("spec");
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let completions = match (spec.completions, spec.parallelism) {
        (None, None) => Some(1),
        (completions, _) => completions,
    };
    let defaulted = JobSpec { completions, ..spec.clone() };
    self::spec(report, &path, &defaulted);
    if !metadata::is_stored(&object.metadata) {
        selector(report, &path, spec, name);
    }
    if let Some(count) = completions.filter(|n| is_indexed(spec) && *n > 0) {
        let last = format!("{name}-{}", count - 1);
        if !name.is_empty() && names::dns_label(&last).is_err() {
            let path = root.field("metadata");
            report.invalid(&path.field("name"), shown(name), "with an index it must be the name of a host");
        }
    }
}

/// The server makes the selector, unless `manualSelector` is set.
fn selector(report: &mut Report<'_>, path: &Path<'_>, spec: &JobSpec, name: &str) {
    let labels = spec.template.metadata.as_ref().and_then(|m| m.labels.as_ref());
    let own = path.field("selector");
    let selector = spec.selector.as_ref();
    selectors::labels(report, &own, selector);
    if spec.manual_selector == Some(true) {
        return match selector {
            None => report.required(&own),
            Some(selector) if !selectors::selects(selector, labels) => {
                report.invalid(&own, "set", "does not select the pods of the template");
            }
            Some(_) => {}
        };
    }
    let mut made = BTreeMap::new();
    for key in NAME_LABELS {
        made.insert(key.to_owned(), name.to_owned());
    }
    for key in UID_LABELS {
        // No text of a manifest is the UID that the server gives.
        made.insert(key.to_owned(), "\0".to_owned());
    }
    let mut all = labels.cloned().unwrap_or_default();
    all.extend(made.clone());
    let selects = |s: &LabelSelector| selectors::selects(s, Some(&made)) && selectors::selects(s, Some(&all));
    if selector.is_some_and(|selector| !selects(selector)) {
        report.forbidden(&own, "the server makes it, unless there is manualSelector: true");
    }
    let template = path.field("template");
    let metadata = template.field("metadata");
    let field = metadata.field("labels");
    for key in NAME_LABELS {
        if labels.and_then(|labels| labels.get(key)).is_some_and(|held| held != name) {
            report.forbidden(&field.field(key), "the server sets it to the name of the job");
        }
    }
    for key in UID_LABELS {
        if labels.is_some_and(|labels| labels.contains_key(key)) {
            report.forbidden(&field.field(key), "the server sets it to the UID of the job");
        }
    }
    if names::label_value(name).is_err() && names::dns_subdomain(name).is_ok() {
        report.invalid(&field, shown(name), "the job's name becomes a label: at most 63 characters");
    }
}

pub(super) fn cron_job(report: &mut Report<'_>, root: &Path<'_>, object: &CronJob) {
    let (path, spec) = (root.field("spec"), &object.spec);
    report.needs(&path.field("schedule"), &spec.schedule, schedule::schedule);
    if let Some(zone) = spec.time_zone.as_ref() {
        report.needs(&path.field("timeZone"), zone, schedule::zone);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    report.one_of(&path.field("concurrencyPolicy"), spec.concurrency_policy.as_ref(), &policies);
    report.natural(&path.field("startingDeadlineSeconds"), spec.starting_deadline_seconds);
    report.natural(&path.field("successfulJobsHistoryLimit"), spec.successful_jobs_history_limit);
    report.natural(&path.field("failedJobsHistoryLimit"), spec.failed_jobs_history_limit);
    if object.metadata.name.as_ref().is_some_and(|name| name.len() > 52) {
        let path = root.field("metadata");
        report.invalid(&path.field("name"), "longer", "must be at most 52 characters: jobs get longer names");
    }
    let path = path.field("jobTemplate");
    let path = path.field("spec");
    let Some(job) = spec.job_template.spec.as_ref() else { return };
    self::spec(report, &path, job);
    if job.selector.is_some() {
        report.forbidden(&path.field("selector"), "the server makes it");
    }
    if job.manual_selector == Some(true) {
        report.forbidden(&path.field("manualSelector"), "the server makes the selector");
    }
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

fn spec(report: &mut Report<'_>, path: &Path<'_>, spec: &JobSpec) {
    report.natural(&path.field("parallelism"), spec.parallelism);
    report.natural(&path.field("completions"), spec.completions);
    report.natural(&path.field("activeDeadlineSeconds"), spec.active_deadline_seconds);
    report.natural(&path.field("backoffLimit"), spec.backoff_limit);
    report.natural(&path.field("backoffLimitPerIndex"), spec.backoff_limit_per_index);
    report.natural(&path.field("maxFailedIndexes"), spec.max_failed_indexes);
    report.natural(&path.field("ttlSecondsAfterFinished"), spec.ttl_seconds_after_finished);
    let modes = ["NonIndexed", "Indexed"];
    report.exactly(&path.field("completionMode"), spec.completion_mode.as_ref(), &modes);
    if let Some(manager) = spec.managed_by.as_ref() {
        report.needs(&path.field("managedBy"), manager, names::domain_path);
    }
    indexes(report, path, spec);
    policies(report, path, spec);
}

fn indexes(report: &mut Report<'_>, path: &Path<'_>, spec: &JobSpec) {
    let failed = spec.max_failed_indexes;
    if failed.is_some() && spec.backoff_limit_per_index.is_none() {
        report.required(&path.field("backoffLimitPerIndex"));
    }
    if !is_indexed(spec) {
        let fields = [
            ("backoffLimitPerIndex", spec.backoff_limit_per_index.is_some()),
            ("maxFailedIndexes", failed.is_some()),
            ("successPolicy", spec.success_policy.is_some()),
        ];
        for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
            report.forbidden(&path.field(field), "only with completionMode: Indexed");
        }
        return;
    }
    let Some(completions) = spec.completions else { return report.required(&path.field("completions")) };
    let is_many = completions > MOST_INDEXED && spec.backoff_limit_per_index.is_some();
    let most = if is_many { MOST_WITH_RETRIES } else { MOST_INDEXED };
    if is_many && failed.is_none() {
        report.required(&path.field("maxFailedIndexes"));
    }
    if failed.is_some_and(|failed| failed > completions || failed > most) {
        let rule = "must not be more than the completions or the limit of an indexed job";
        report.invalid(&path.field("maxFailedIndexes"), failed.unwrap_or_default(), rule);
    }
    if spec.parallelism.is_some_and(|parallelism| parallelism > most) {
        let rule = "must not be more than the limit of an indexed job";
        report.invalid(&path.field("parallelism"), spec.parallelism.unwrap_or_default(), rule);
    }
    if let Some(policy) = spec.success_policy.as_ref() {
        let path = path.field("successPolicy");
        let rules = path.field("rules");
        if policy.rules.is_empty() {
            report.required(&rules);
        }
        report.at_most(&rules, policy.rules.len(), 20);
        for (index, rule) in policy.rules.iter().enumerate() {
            success(report, &rules.index(index), rule, completions);
        }
    }
}

fn success(report: &mut Report<'_>, path: &Path<'_>, rule: &SuccessPolicyRule, completions: i32) {
    let mut most = completions;
    if let Some(text) = rule.succeeded_indexes.as_ref() {
        match indexes_in(text, completions) {
            Some(count) => most = most.min(count),
            None => {
                let path = path.field("succeededIndexes");
                report.invalid(&path, shown(text), "must be rising indexes or ranges below completions");
            }
        }
    }
    match rule.succeeded_count {
        Some(count) if count < 0 || count > most => {
            report.invalid(
                &path.field("succeededCount"),
                count,
                "must be from 0 to as many indexes as there are",
            );
        }
        None if rule.succeeded_indexes.is_none() => report.required(path),
        _ => {}
    }
}

/// How many indexes `0,2-5` names; nothing when they do not rise or do not exist.
fn indexes_in(text: &str, completions: i32) -> Option<i32> {
    if text.len() > 64 * 1024 {
        return None;
    }
    let number = |text: &str| text.parse::<i32>().ok().filter(|n| *n < completions);
    let mut last: Option<i32> = None;
    let mut count = 0;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (start, end) = match part.split_once('-') {
            Some((start, end)) => (number(start)?, number(end)?),
            None => (number(part)?, number(part)?),
        };
        if last.is_some_and(|last| last >= start) || (part.contains('-') && start >= end) {
            return None;
        }
        count += end - start + 1;
        last = Some(end);
    }
    Some(count)
}

fn policies(report: &mut Report<'_>, path: &Path<'_>, spec: &JobSpec) {
    let replacement = path.field("podReplacementPolicy");
    let allowed: &[&'static str] =
        if spec.pod_failure_policy.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    report.exactly(&replacement, spec.pod_replacement_policy.as_ref(), allowed);
    let Some(policy) = spec.pod_failure_policy.as_ref() else { return };
    let pod = spec.template.spec.as_ref();
    if pod.and_then(|pod| pod.restart_policy.as_deref()) == Some("OnFailure") {
        let path = path.field("template");
        let path = path.field("spec");
        report.invalid(&path.field("restartPolicy"), "OnFailure", "must be Never with a podFailurePolicy");
    }
    let path = path.field("podFailurePolicy");
    let path = path.field("rules");
    report.at_most(&path, policy.rules.len(), 20);
    let main = pod.into_iter().flat_map(|pod| &pod.containers);
    let init = pod.into_iter().flat_map(|pod| pod.init_containers.iter().flatten());
    let containers: BTreeSet<&str> = main.chain(init).map(|c| c.name.as_str()).collect();
    for (index, rule) in policy.rules.iter().enumerate() {
        failure(report, &path.index(index), rule, spec);
        if let Some(codes) = rule.on_exit_codes.as_ref() {
            exit_codes(report, &path.index(index).field("onExitCodes"), codes, &containers);
        }
    }
}

fn failure(report: &mut Report<'_>, path: &Path<'_>, rule: &PodFailurePolicyRule, spec: &JobSpec) {
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    report.choice(&path.field("action"), &rule.action, &actions);
    if rule.action == "FailIndex" && spec.backoff_limit_per_index.is_none() {
        report.invalid(&path.field("action"), "FailIndex", "only with a backoffLimitPerIndex");
    }
    let conditions = rule.on_pod_conditions.as_ref();
    let is_set = conditions.is_some_and(|c| !c.is_empty());
    report.just_one(path, &[("onExitCodes", rule.on_exit_codes.is_some()), ("onPodConditions", is_set)]);
    let path = path.field("onPodConditions");
    report.at_most(&path, conditions.map_or(0, Vec::len), 20);
    for (index, pattern) in each(conditions) {
        let path = path.index(index);
        report.needs(&path.field("type"), &pattern.type_, names::qualified);
        report.one_of(&path.field("status"), pattern.status.as_ref(), &["True", "False", "Unknown"]);
    }
}

fn exit_codes(
    report: &mut Report<'_>,
    path: &Path<'_>,
    codes: &PodFailurePolicyOnExitCodesRequirement,
    containers: &BTreeSet<&str>,
) {
    report.choice(&path.field("operator"), &codes.operator, &["In", "NotIn"]);
    if let Some(name) = codes.container_name.as_ref().filter(|name| !containers.contains(name.as_str())) {
        report.invalid(&path.field("containerName"), shown(name), "the template has no such container");
    }
    let path = path.field("values");
    if codes.values.is_empty() {
        report.required(&path);
    }
    report.at_most(&path, codes.values.len(), 255);
    let is_rising = codes.values.iter().zip(codes.values.iter().skip(1)).all(|(one, next)| one < next);
    if !is_rising {
        report.invalid(&path, format!("{:?}", codes.values), "must rise");
    }
    if codes.operator == "In" && codes.values.contains(&0) {
        report.invalid(&path, 0, "a container that succeeded has not failed: not with the operator In");
    }
}
