use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodResourceClaim, ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use types::{Quantity, is_extended_resource};

use super::names;
use super::report::{Report, each, shown};
use crate::finding::Problem;
use crate::place::Path;

pub(super) type Amounts = BTreeMap<String, Written>;

/// What the resources are of: a pod as a whole has fewer kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Container,
    Pod,
}

pub(super) fn requirements(
    report: &mut Report<'_>,
    path: &Path<'_>,
    resources: Option<&ResourceRequirements>,
    of: Of,
) {
    let Some(resources) = resources else { return };
    let limits = amounts(report, &path.field("limits"), resources.limits.as_ref(), of);
    let requests = amounts(report, &path.field("requests"), resources.requests.as_ref(), of);
    for (name, request) in &requests {
        let path = path.field("requests");
        within(
            report,
            &path.field(name),
            &Pair { name, request: *request, limit: limits.get(name).copied() },
        );
    }
    if of == Of::Container {
        huge_pages(report, path, limits.keys().chain(requests.keys()).copied());
    }
}

/// Huge pages alone are not enough for a container or pod; `named` are the resources that it has.
pub(super) fn huge_pages<'a>(report: &mut Report<'_>, path: &Path<'_>, named: impl Iterator<Item = &'a str>) {
    let named: BTreeSet<&str> = named.collect();
    let has_pages = named.iter().any(|name| name.starts_with("hugepages-"));
    if has_pages && !named.contains("cpu") && !named.contains("memory") {
        report.forbidden(path, "huge pages only with cpu or memory");
    }
}

/// What the sandbox itself needs.
pub(super) fn overhead(report: &mut Report<'_>, path: &Path<'_>, overhead: Option<&Amounts>) {
    let as_limits = ResourceRequirements { limits: overhead.cloned(), ..ResourceRequirements::default() };
    let read = amounts(report, path, as_limits.limits.as_ref(), Of::Container);
    huge_pages(report, path, read.keys().copied());
}

/// Devices that a container takes from the claims of its pod.
pub(super) fn claims(
    report: &mut Report<'_>,
    path: &Path<'_>,
    claims: Option<&Vec<ResourceClaim>>,
    of_pod: Option<&Vec<PodResourceClaim>>,
) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (index, claim) in each(claims) {
        let path = path.index(index);
        let request = claim.request.as_deref().unwrap_or_default();
        if claim.name.is_empty() {
            report.required(&path.field("name"));
            continue;
        }
        report.may(&path.field("request"), claim.request.as_ref(), names::dns_label);
        // A claim without a request is all of its requests.
        let is_taken = |(name, held): &(&str, &str)| {
            *name == claim.name && (*held == request || held.is_empty() || request.is_empty())
        };
        if seen.iter().any(is_taken) {
            report.add(&path, Problem::Duplicate { value: shown(&claim.name) });
        }
        seen.insert((&claim.name, request));
        if !of_pod.into_iter().flatten().any(|held| held.name == claim.name) {
            report.add(
                &path.field("name"),
                Problem::NotFound { what: "resource claim", name: claim.name.clone() },
            );
        }
    }
}

fn amounts<'a>(
    report: &mut Report<'_>,
    path: &Path<'_>,
    written: Option<&'a Amounts>,
    of: Of,
) -> BTreeMap<&'a str, Quantity> {
    let mut read = BTreeMap::new();
    for (name, amount) in written.into_iter().flatten() {
        let path = path.field(name);
        if let Err(rule) = resource_name(name, of) {
            report.invalid(&path, shown(name), rule);
        }
        if let Some(amount) = quantity(report, &path, amount) {
            // Devices are counted in whole ones.
            if is_extended_resource(name) && !amount.is_whole() {
                report.invalid(&path, amount, "must be a whole number");
            }
            if let Some(size) = name.strip_prefix("hugepages-")
                && !is_multiple(amount, size)
            {
                report.invalid(&path, amount, "must be a multiple of the page size in its name");
            }
            read.insert(name.as_str(), amount);
        }
    }
    read
}

fn is_multiple(amount: Quantity, size: &str) -> bool {
    let size = size.parse::<Quantity>().ok().filter(|size| *size > Quantity::ZERO && size.is_whole());
    size.is_some_and(|size| amount.units().checked_rem(size.units()) == Some(0))
}

/// An amount, whatever its sign.
pub(super) fn readable(report: &mut Report<'_>, path: &Path<'_>, written: &Written) -> Option<Quantity> {
    match written.0.parse::<Quantity>() {
        Ok(amount) => Some(amount),
        Err(error) => {
            report.add(path, Problem::Syntax(error.to_string()));
            None
        }
    }
}

/// An amount that must not be negative.
pub(super) fn quantity(report: &mut Report<'_>, path: &Path<'_>, written: &Written) -> Option<Quantity> {
    let amount = readable(report, path, written)?;
    if amount < Quantity::ZERO {
        report.invalid(path, shown(&written.0), "must not be negative");
        return None;
    }
    Some(amount)
}

/// The grain that resources are counted in.
pub(super) fn thousandths(written: &Written) -> Option<i128> {
    written.0.parse::<Quantity>().ok().map(|amount| amount.divided_by(Quantity::MILLI, Quantity::MILLI))
}

/// What can be requested: the node's own resources, or those of a device plugin.
fn resource_name(name: &str, of: Of) -> Result<(), &'static str> {
    let is_of_pod = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let is_own = is_of_pod || name == "ephemeral-storage";
    match (of, name.contains('/')) {
        (Of::Pod, _) if is_of_pod => names::qualified(name),
        (Of::Pod, _) => Err("must be cpu, memory or hugepages-SIZE"),
        (Of::Container, true) if is_native(name) => names::qualified(name),
        (Of::Container, true) if name.starts_with("requests.") => Err("must not start with 'requests.'"),
        // A quota adds its own prefix to the name.
        (Of::Container, true) => names::qualified(&format!("requests.{name}")),
        (Of::Container, false) if is_own => names::qualified(name),
        (Of::Container, false) => {
            Err("must be cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain")
        }
    }
}

/// Kubernetes' own: it is in no other domain.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Huge pages and devices are a container's own: its request is its limit.
fn can_share(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

/// What is requested of a resource, and its limit.
struct Pair<'a> {
    name: &'a str,
    request: Quantity,
    limit: Option<Quantity>,
}

fn within(report: &mut Report<'_>, path: &Path<'_>, pair: &Pair<'_>) {
    let grains = |amount: Quantity| amount.divided_by(Quantity::MILLI, Quantity::MILLI);
    let (request, is_shared) = (pair.request, can_share(pair.name));
    match pair.limit.map(grains) {
        Some(limit) if grains(request) > limit => {
            report.invalid(path, request, "must not be more than the limit");
        }
        Some(limit) if !is_shared && grains(request) != limit => {
            report.invalid(path, request, "must be the limit: it cannot be shared");
        }
        None if !is_shared => report.invalid(path, request, "needs a limit: it cannot be shared"),
        _ => {}
    }
}
