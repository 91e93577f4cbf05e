//! Where a pod may run: affinity, tolerations, spreading over a topology.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};

use super::report::{Report, each, shown};
use super::selectors::{self, LabelKeys, Values};
use super::{metadata, names};
use crate::finding::Problem;
use crate::place::Path;

/// Labels that the API server adds match keys from: a pod's own. A template's become those of pods later.
type Labels<'a> = Option<&'a BTreeMap<String, String>>;

pub(super) fn all(report: &mut Report<'_>, path: &Path<'_>, spec: &PodSpec, labels: Labels<'_>) {
    metadata::labels(report, &path.field("nodeSelector"), spec.node_selector.as_ref());
    if let Some(affinity) = spec.affinity.as_ref() {
        self::affinity(report, &path.field("affinity"), affinity, labels);
    }
    tolerations(report, &path.field("tolerations"), spec.tolerations.as_ref());
    let constraints = spec.topology_spread_constraints.as_ref();
    for (index, item) in each(constraints) {
        let list = path.field("topologySpreadConstraints");
        let path = list.index(index);
        spread(report, &path, item, labels);
        let key = (&item.topology_key, &item.when_unsatisfiable);
        let is_same =
            |other: &TopologySpreadConstraint| (&other.topology_key, &other.when_unsatisfiable) == key;
        if constraints.into_iter().flatten().take(index).any(is_same) {
            let value = format!("{{{}, {}}}", item.topology_key, item.when_unsatisfiable);
            report.add(&path.field("topologyKey"), Problem::Duplicate { value });
        }
    }
}

fn affinity(report: &mut Report<'_>, path: &Path<'_>, affinity: &Affinity, labels: Labels<'_>) {
    if let Some(node) = affinity.node_affinity.as_ref() {
        node_affinity(report, &path.field("nodeAffinity"), node);
    }
    if let Some(pods) = affinity.pod_affinity.as_ref() {
        let terms = Terms {
            required: pods.required_during_scheduling_ignored_during_execution.as_ref(),
            preferred: pods.preferred_during_scheduling_ignored_during_execution.as_ref(),
        };
        pod_terms(report, &path.field("podAffinity"), &terms, labels);
    }
    if let Some(pods) = affinity.pod_anti_affinity.as_ref() {
        let terms = Terms {
            required: pods.required_during_scheduling_ignored_during_execution.as_ref(),
            preferred: pods.preferred_during_scheduling_ignored_during_execution.as_ref(),
        };
        pod_terms(report, &path.field("podAntiAffinity"), &terms, labels);
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(report: &mut Report<'_>, path: &Path<'_>, node: &NodeAffinity) {
    if let Some(required) = node.required_during_scheduling_ignored_during_execution.as_ref() {
        selectors::nodes(report, &path.field(REQUIRED), required);
    }
    let preferred = path.field(PREFERRED);
    for (index, term) in each(node.preferred_during_scheduling_ignored_during_execution.as_ref()) {
        let path = preferred.index(index);
        report.ranged(&path.field("weight"), Some(term.weight), 1..=100);
        selectors::term(report, &path.field("preference"), &term.preference, Values::Any);
    }
}

/// Both lists of an affinity to pods, or of its opposite.
struct Terms<'a> {
    required: Option<&'a Vec<PodAffinityTerm>>,
    preferred: Option<&'a Vec<WeightedPodAffinityTerm>>,
}

fn pod_terms(report: &mut Report<'_>, path: &Path<'_>, terms: &Terms<'_>, labels: Labels<'_>) {
    for (index, term) in each(terms.required) {
        pod_term(report, &path.field(REQUIRED).index(index), term, labels);
    }
    for (index, term) in each(terms.preferred) {
        let list = path.field(PREFERRED);
        let path = list.index(index);
        report.ranged(&path.field("weight"), Some(term.weight), 1..=100);
        pod_term(report, &path.field("podAffinityTerm"), &term.pod_affinity_term, labels);
    }
}

fn pod_term(report: &mut Report<'_>, path: &Path<'_>, term: &PodAffinityTerm, labels: Labels<'_>) {
    selectors::labels(report, &path.field("labelSelector"), term.label_selector.as_ref());
    selectors::labels(report, &path.field("namespaceSelector"), term.namespace_selector.as_ref());
    for (index, name) in each(term.namespaces.as_ref()) {
        report.needs(&path.field("namespaces").index(index), name, names::dns_label);
    }
    let keys = LabelKeys {
        matching: term.match_label_keys.as_ref(),
        mismatching: term.mismatch_label_keys.as_ref(),
        selector: term.label_selector.as_ref(),
    };
    selectors::label_keys(report, path, &keys);
    repeated_keys(report, path, &keys, labels);
    report.needs(&path.field("topologyKey"), &term.topology_key, names::qualified);
}

/// The server adds match keys to the selector: a key that is there already would be there twice.
fn repeated_keys(report: &mut Report<'_>, path: &Path<'_>, keys: &LabelKeys<'_>, labels: Labels<'_>) {
    let Some(selector) = keys.selector else { return };
    let is_added = |key: &String| labels.is_some_and(|labels| labels.contains_key(key));
    for (index, key) in each(keys.matching) {
        let added = keys.matching.into_iter().flatten().filter(|k| *k == key && is_added(k)).count();
        let expressions =
            selector.match_expressions.iter().flatten().filter(|e| e.key == *key).count() + added;
        let is_label = selector.match_labels.as_ref().is_some_and(|l| l.contains_key(key));
        if expressions > 1 || (expressions == 1 && is_label) {
            report.invalid(
                &path.field("matchLabelKeys").index(index),
                shown(key),
                "is in the labelSelector too",
            );
        }
    }
}

fn spread(report: &mut Report<'_>, path: &Path<'_>, item: &TopologySpreadConstraint, labels: Labels<'_>) {
    report.ranged(&path.field("maxSkew"), Some(item.max_skew), 1..=i64::MAX);
    report.present(&path.field("topologyKey"), &item.topology_key);
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    report.choice(&path.field("whenUnsatisfiable"), &item.when_unsatisfiable, &actions);
    report.ranged(&path.field("minDomains"), item.min_domains, 1..=i64::MAX);
    if item.min_domains.is_some() && item.when_unsatisfiable != "DoNotSchedule" {
        report.forbidden(&path.field("minDomains"), "only with whenUnsatisfiable: DoNotSchedule");
    }
    let policies = ["Honor", "Ignore"];
    report.exactly(&path.field("nodeAffinityPolicy"), item.node_affinity_policy.as_ref(), &policies);
    report.exactly(&path.field("nodeTaintsPolicy"), item.node_taints_policy.as_ref(), &policies);
    selectors::labels(report, &path.field("labelSelector"), item.label_selector.as_ref());
    let keys = LabelKeys {
        matching: item.match_label_keys.as_ref(),
        mismatching: None,
        selector: item.label_selector.as_ref(),
    };
    selectors::label_keys(report, path, &keys);
    repeated_keys(report, path, &keys, labels);
}

pub(super) fn tolerations(report: &mut Report<'_>, path: &Path<'_>, list: Option<&Vec<Toleration>>) {
    each(list).for_each(|(index, item)| toleration(report, &path.index(index), item));
}

fn toleration(report: &mut Report<'_>, path: &Path<'_>, toleration: &Toleration) {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    report.one_of(&path.field("operator"), toleration.operator.as_ref(), &["Exists", "Equal"]);
    report.one_of(&path.field("effect"), toleration.effect.as_ref(), &effects);
    let operator = toleration.operator.as_deref().unwrap_or_default();
    report.may(&path.field("key"), toleration.key.as_ref(), names::qualified);
    if toleration.key.as_deref().unwrap_or_default().is_empty() && operator != "Exists" {
        report.invalid(&path.field("operator"), "Equal", "must be Exists when there is no key");
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    match operator {
        "Exists" if !value.is_empty() => {
            report.invalid(&path.field("operator"), "Exists", "must not be with a value");
        }
        "Equal" | "" => {
            if let Err(rule) = names::label_value(value) {
                report.invalid(&path.field("value"), shown(value), rule);
            }
        }
        _ => {}
    }
    if toleration.toleration_seconds.is_some() && toleration.effect.as_deref() != Some("NoExecute") {
        report.forbidden(&path.field("tolerationSeconds"), "only with effect NoExecute");
    }
}
