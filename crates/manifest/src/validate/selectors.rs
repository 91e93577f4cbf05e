//! Selectors of labels and of nodes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::report::{Report, each, shown};
use super::{metadata, names};
use crate::place::Path;

pub(super) fn labels(report: &mut Report<'_>, path: &Path<'_>, selector: Option<&LabelSelector>) {
    let Some(selector) = selector else { return };
    metadata::labels(report, &path.field("matchLabels"), selector.match_labels.as_ref());
    for (index, item) in each(selector.match_expressions.as_ref()) {
        requirement(report, &path.field("matchExpressions").index(index), item);
    }
}

fn requirement(report: &mut Report<'_>, path: &Path<'_>, item: &LabelSelectorRequirement) {
    let count = item.values.as_ref().map_or(0, Vec::len);
    report.choice(&path.field("operator"), &item.operator, &["In", "NotIn", "Exists", "DoesNotExist"]);
    report.needs(&path.field("key"), &item.key, names::qualified);
    operands(report, &path.field("values"), &item.operator, count);
    for (index, value) in each(item.values.as_ref()) {
        label_value(report, &path.field("values").index(index), value);
    }
}

fn operands(report: &mut Report<'_>, path: &Path<'_>, operator: &str, count: usize) {
    match operator {
        "In" | "NotIn" if count == 0 => report.required(path),
        "Exists" | "DoesNotExist" if count > 0 => {
            report.forbidden(path, "not with the operator Exists or DoesNotExist");
        }
        "Gt" | "Lt" if count != 1 => report.invalid(path, count, "the operator Gt or Lt takes one value"),
        _ => {}
    }
}

fn label_value(report: &mut Report<'_>, path: &Path<'_>, value: &str) {
    if let Err(rule) = names::label_value(value) {
        report.invalid(path, shown(value), rule);
    }
}

/// Whether values are checked as labels: a preference may name what no label can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    Labels,
    Any,
}

pub(super) fn nodes(report: &mut Report<'_>, path: &Path<'_>, selector: &NodeSelector) {
    let terms = path.field("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        report.required(&terms);
    }
    for (index, item) in selector.node_selector_terms.iter().enumerate() {
        term(report, &terms.index(index), item, Values::Labels);
    }
}

pub(super) fn term(report: &mut Report<'_>, path: &Path<'_>, term: &NodeSelectorTerm, values: Values) {
    for (index, item) in each(term.match_expressions.as_ref()) {
        expression(report, &path.field("matchExpressions").index(index), item, values);
    }
    for (index, item) in each(term.match_fields.as_ref()) {
        node_field(report, &path.field("matchFields").index(index), item);
    }
}

fn expression(report: &mut Report<'_>, path: &Path<'_>, item: &NodeSelectorRequirement, values: Values) {
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    report.choice(&path.field("operator"), &item.operator, &operators);
    report.needs(&path.field("key"), &item.key, names::qualified);
    operands(report, &path.field("values"), &item.operator, item.values.as_ref().map_or(0, Vec::len));
    if values == Values::Labels {
        for (index, value) in each(item.values.as_ref()) {
            label_value(report, &path.field("values").index(index), value);
        }
    }
}

/// A node is selected by no other field than its name.
fn node_field(report: &mut Report<'_>, path: &Path<'_>, item: &NodeSelectorRequirement) {
    report.choice(&path.field("operator"), &item.operator, &["In", "NotIn"]);
    report.choice(&path.field("key"), &item.key, &["metadata.name"]);
    let values = path.field("values");
    if item.values.as_ref().map_or(0, Vec::len) != 1 {
        report.invalid(&values, item.values.as_ref().map_or(0, Vec::len), "a field takes one value");
    }
    for (index, value) in each(item.values.as_ref()) {
        report.needs(&values.index(index), value, names::dns_subdomain);
    }
}

/// Whether a selector that is not empty selects these labels.
pub(super) fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key));
    let pairs = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    pairs.into_iter().all(|(key, wanted)| value(key) == Some(wanted))
        && expressions.into_iter().all(|item| {
            let has = |held: &String| item.values.iter().flatten().any(|wanted| wanted == held);
            match (item.operator.as_str(), value(&item.key)) {
                ("In", held) => held.is_some_and(has),
                ("NotIn", held) => !held.is_some_and(has),
                ("Exists", held) => held.is_some(),
                ("DoesNotExist", held) => held.is_none(),
                _ => true,
            }
        })
}

/// The keys of labels whose values a scheduler takes from the pod itself.
pub(super) struct LabelKeys<'a> {
    pub(super) matching: Option<&'a Vec<String>>,
    pub(super) mismatching: Option<&'a Vec<String>>,
    pub(super) selector: Option<&'a LabelSelector>,
}

pub(super) fn label_keys(report: &mut Report<'_>, path: &Path<'_>, keys: &LabelKeys<'_>) {
    let lists = [("matchLabelKeys", keys.matching), ("mismatchLabelKeys", keys.mismatching)];
    for (field, list) in lists {
        let path = path.field(field);
        if keys.selector.is_none() && list.is_some_and(|list| !list.is_empty()) {
            report.forbidden(&path, "only with a labelSelector");
            continue;
        }
        for (index, key) in each(list) {
            report.needs(&path.index(index), key, names::qualified);
        }
    }
    let unwanted: BTreeSet<&String> = keys.mismatching.into_iter().flatten().collect();
    for (index, key) in each(keys.matching).filter(|(_, key)| unwanted.contains(key)) {
        report.invalid(&path.field("matchLabelKeys").index(index), shown(key), "is in mismatchLabelKeys too");
    }
}
