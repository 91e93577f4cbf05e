//! Resources of a pod as a whole, against those of its containers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};

use super::containers::Role;
use super::pod::Pod;
use super::report::{Report, shown};
use super::resources::{self, Amounts, Of};
use crate::place::Path;

/// Amounts by resource, in thousandths.
type Sums = BTreeMap<String, i128>;

pub(super) fn all(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let Some(written) = pod.spec.resources.as_ref() else { return };
    let path = path.field("resources");
    if pod.os == Some("windows") {
        return report.forbidden(&path, "not in a pod for Windows");
    }
    if written.claims.is_some() {
        report.forbidden(&path.field("claims"), "only in a container");
    }
    let written = ResourceRequirements { claims: None, ..written.clone() };
    resources::requirements(report, &path, Some(&written), Of::Pod);
    let mut limits = sums(written.limits.as_ref());
    let mut requests = sums(written.requests.as_ref());
    let of_containers = Totals::of(pod);
    if pod.is_pod && !(limits.is_empty() && requests.is_empty()) {
        of_containers.fill(&mut requests, &mut limits, pod);
    }
    // The server sets what the pod does not say from its containers first.
    resources::huge_pages(report, &path, limits.keys().chain(requests.keys()).map(String::as_str));
    for (name, limit) in &limits {
        let request = requests.get(name).copied().unwrap_or(*limit);
        let is_huge = name.starts_with("hugepages-");
        if request > *limit || (is_huge && request != *limit) {
            report.invalid(&path.field("requests").field(name), shown(name), "must go with the pod's limit");
        }
    }
    for (name, total) in &of_containers.requests {
        if requests.get(name).is_some_and(|request| total > request) {
            let field = path.field("requests");
            report.invalid(&field.field(name), shown(name), "must not be less than its containers request");
        }
    }
    for (name, total) in of_containers.limits.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        if limits.get(name).is_some_and(|limit| total > limit) {
            let field = path.field("limits");
            report.invalid(&field.field(name), shown(name), "must not be less than its containers' limits");
        }
    }
    for container in &pod.spec.containers {
        for (name, own) in sums(container.resources.as_ref().and_then(|r| r.limits.as_ref())) {
            if limits.get(&name).is_some_and(|limit| own > *limit) {
                let field = path.field("limits");
                report.invalid(
                    &field.field(&name),
                    shown(&name),
                    "must not be less than a container's limit",
                );
            }
        }
    }
}

fn sums(written: Option<&Amounts>) -> Sums {
    let read = written
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), resources::thousandths(amount)?)));
    read.collect()
}

/// What the containers need together, at the time when they need the most.
struct Totals {
    requests: Sums,
    limits: Sums,
}

impl Totals {
    fn of(pod: &Pod<'_>) -> Self {
        let requests = |container: &Container| {
            let resources = container.resources.as_ref();
            let mut own = sums(resources.and_then(|r| r.requests.as_ref()));
            if pod.is_pod {
                for (name, limit) in sums(resources.and_then(|r| r.limits.as_ref())) {
                    own.entry(name).or_insert(limit);
                }
            }
            own
        };
        let limits =
            |container: &Container| sums(container.resources.as_ref().and_then(|r| r.limits.as_ref()));
        Self { requests: most(pod, &requests), limits: most(pod, &limits) }
    }

    /// What the API server fills in for a pod that says something of itself.
    fn fill(&self, requests: &mut Sums, limits: &mut Sums, pod: &Pod<'_>) {
        for (name, total) in self.limits.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
            if !requests.contains_key(name) {
                limits.entry(name.clone()).or_insert(*total);
            }
        }
        for name in ["cpu", "memory"] {
            if let Some(total) = self.requests.get(name) {
                requests.entry(name.to_owned()).or_insert(*total);
            }
        }
        for (name, limit) in limits.iter().filter(|(name, _)| is_supported(name)) {
            requests.entry(name.clone()).or_insert(*limit);
        }
        let unlimited: BTreeSet<String> =
            requests.keys().filter(|n| !limits.contains_key(*n)).cloned().collect();
        let init = pod.spec.init_containers.iter().flatten();
        let containers: Vec<&Container> = pod.spec.containers.iter().chain(init).collect();
        for name in unlimited.into_iter().filter(|name| is_supported(name)) {
            let has = |container: &&Container| {
                container
                    .resources
                    .as_ref()
                    .and_then(|r| r.limits.as_ref())
                    .is_some_and(|l| l.contains_key(&name))
            };
            if let Some(total) = self.limits.get(&name).filter(|_| containers.iter().all(has)) {
                let request = requests.get(&name).copied().unwrap_or_default();
                limits.insert(name, request.max(*total));
            }
        }
    }
}

fn is_supported(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn add(total: &mut Sums, more: &Sums) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

/// Init containers run one after the other, beside the sidecars that were started before them.
fn most(pod: &Pod<'_>, of: &dyn Fn(&Container) -> Sums) -> Sums {
    let mut together = Sums::new();
    pod.spec.containers.iter().for_each(|container| add(&mut together, &of(container)));
    let (mut sidecars, mut peak) = (Sums::new(), Sums::new());
    for container in pod.spec.init_containers.iter().flatten() {
        let own = of(container);
        let mut now = own.clone();
        if Role::of_init(container) == Role::Sidecar {
            add(&mut together, &own);
            add(&mut sidecars, &own);
            now = sidecars.clone();
        } else {
            add(&mut now, &sidecars);
        }
        for (name, amount) in now {
            let held = peak.entry(name).or_default();
            *held = (*held).max(amount);
        }
    }
    for (name, amount) in peak {
        let held = together.entry(name).or_default();
        *held = (*held).max(amount);
    }
    together
}
