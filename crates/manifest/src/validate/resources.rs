use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use types::Quantity;

use super::names;
use super::report::{Report, each, shown};
use crate::finding::Problem;
use crate::place::Path;

type Amounts = BTreeMap<String, Written>;

pub(super) fn container(report: &mut Report<'_>, path: &Path<'_>, resources: Option<&ResourceRequirements>) {
    let Some(resources) = resources else { return };
    let limits = amounts(report, &path.field("limits"), resources.limits.as_ref());
    let requests = amounts(report, &path.field("requests"), resources.requests.as_ref());
    for (name, request) in &requests {
        within(report, &path.field("requests").field(name), *request, limits.get(name).copied(), name);
    }
    for (index, claim) in each(resources.claims.as_ref()) {
        report.needs(&path.field("claims").index(index).field("name"), &claim.name, names::dns_label);
    }
}

fn amounts<'a>(
    report: &mut Report<'_>,
    path: &Path<'_>,
    written: Option<&'a Amounts>,
) -> BTreeMap<&'a str, Quantity> {
    let mut read = BTreeMap::new();
    for (name, amount) in written.into_iter().flatten() {
        let path = path.field(name);
        if let Err(rule) = resource_name(name) {
            report.invalid(&path, shown(name), rule);
        }
        if let Some(amount) = quantity(report, &path, amount) {
            if !can_share(name) && !amount.is_whole() {
                report.invalid(&path, amount, "must be a whole number");
            }
            read.insert(name.as_str(), amount);
        }
    }
    read
}

/// An amount that is none or less is said so.
pub(super) fn quantity(report: &mut Report<'_>, path: &Path<'_>, written: &Written) -> Option<Quantity> {
    match written.0.parse::<Quantity>() {
        Ok(amount) if amount < Quantity::ZERO => {
            report.invalid(path, shown(&written.0), "must not be negative");
            None
        }
        Ok(amount) => Some(amount),
        Err(error) => {
            report.add(path, Problem::Syntax(error.to_string()));
            None
        }
    }
}

/// What containers can request: the node's own resources, or those of a device plugin.
fn resource_name(name: &str) -> Result<(), &'static str> {
    let is_own = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    match name.contains('/') {
        true => names::qualified(name),
        false if is_own => Ok(()),
        false => Err("must be cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain"),
    }
}

/// Huge pages and devices are a container's own: its request is its limit.
fn can_share(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

fn within(report: &mut Report<'_>, path: &Path<'_>, request: Quantity, limit: Option<Quantity>, name: &str) {
    match limit {
        Some(limit) if request > limit => report.invalid(path, request, "must not be more than the limit"),
        Some(limit) if !can_share(name) && request != limit => {
            report.invalid(path, request, "must be the limit: it cannot be shared");
        }
        None if !can_share(name) => report.invalid(path, request, "needs a limit: it cannot be shared"),
        _ => {}
    }
}
