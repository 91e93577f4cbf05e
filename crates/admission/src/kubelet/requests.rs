//! What a pod requests, by the rules of the scheduler.

use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
pub(super) use manifest::k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";
pub(super) const PODS: &str = "pods";
pub(super) const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub(super) const HUGE_PAGES: &str = "hugepages-";

/// Amounts by resource: processors in thousandths, everything else in units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Amounts(pub(super) BTreeMap<String, i64>);

impl Amounts {
    pub(super) fn of(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.of(name).saturating_add(*amount);
            self.0.insert(name.clone(), sum);
        }
    }

    /// The larger amount of each resource.
    fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let larger = self.of(name).max(*amount);
            self.0.insert(name.clone(), larger);
        }
    }
}

/// An amount in the unit in which its resource is counted.
pub(super) fn counted(name: &str, amount: types::Quantity) -> i64 {
    if name == CPU { amount.thousandths() } else { amount.units() }
}

fn amounts(list: Option<&BTreeMap<String, ApiQuantity>>) -> Amounts {
    let all = list.into_iter().flatten();
    // The API server accepts nothing that is no quantity.
    Amounts(
        all.map(|(name, text)| (name.clone(), counted(name, text.0.parse().unwrap_or_default()))).collect(),
    )
}

/// What of a container's resources is added up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Requests,
    Limits,
}

impl List {
    fn of(self, resources: Option<&ResourceRequirements>) -> Amounts {
        let of = |resources: &ResourceRequirements| match self {
            Self::Requests => amounts(resources.requests.as_ref()),
            Self::Limits => amounts(resources.limits.as_ref()),
        };
        resources.map(of).unwrap_or_default()
    }
}

/// Whether an init container keeps running beside the regular containers.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What the pod needs at the time when it needs most: each init container beside the sidecars before it, then all regular
/// containers and sidecars; what is requested for the pod as a whole comes first; the overhead of its sandbox comes on top.
pub(super) fn of_pod(spec: &PodSpec) -> Amounts {
    let mut sum = total(spec, List::Requests);
    sum.add(&amounts(spec.overhead.as_ref()));
    sum
}

/// The limits of its containers together, of the resources of which at least one has a limit; with the overhead of its
/// sandbox.
pub(super) fn limits_of_pod(spec: &PodSpec) -> Amounts {
    let mut sum = total(spec, List::Limits);
    let overhead = amounts(spec.overhead.as_ref()).0;
    sum.add(&Amounts(overhead.into_iter().filter(|(name, _)| sum.0.contains_key(name)).collect()));
    sum
}

fn total(spec: &PodSpec, list: List) -> Amounts {
    let mut sum = Amounts::default();
    spec.containers.iter().for_each(|container| sum.add(&list.of(container.resources.as_ref())));
    let (mut sidecars, mut most) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let mut needs = list.of(container.resources.as_ref());
        if is_sidecar(container) {
            sum.add(&needs);
            sidecars.add(&needs);
            most.raise(&sidecars);
        } else {
            needs.add(&sidecars);
            most.raise(&needs);
        }
    }
    sum.raise(&most);
    let of_pod = list.of(spec.resources.as_ref());
    let is_for_pods = |name: &str| name == CPU || name == MEMORY || name.starts_with(HUGE_PAGES);
    sum.0.extend(of_pod.0.into_iter().filter(|(name, _)| is_for_pods(name)));
    sum
}

/// The QoS class of a pod, the first that is ended when resources are short first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QosClass {
    BestEffort,
    Burstable,
    Guaranteed,
}

impl QosClass {
    pub(super) fn of(spec: &PodSpec) -> Self {
        let of_pod = spec.resources.iter().filter(|r| r.requests.is_some() || r.limits.is_some());
        let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
        let of_pod: Vec<_> = of_pod.map(Some).collect();
        let all: Vec<Option<&ResourceRequirements>> = match of_pod.is_empty() {
            true => containers().map(|container| container.resources.as_ref()).collect(),
            false => of_pod,
        };
        let amount = |list: Option<&BTreeMap<String, ApiQuantity>>, name: &str| {
            Some(amounts(list).of(name)).filter(|amount| *amount > 0)
        };
        let limit = |r: Option<&ResourceRequirements>, name| amount(r.and_then(|r| r.limits.as_ref()), name);
        let request =
            |r: Option<&ResourceRequirements>, name| amount(r.and_then(|r| r.requests.as_ref()), name);
        let names = [CPU, MEMORY];
        let asks = |r| names.iter().any(|name| limit(r, name).or(request(r, name)).is_some());
        let is_full = |r| {
            names.iter().all(|name| {
                let limit = limit(r, name);
                limit.is_some() && request(r, name).is_none_or(|request| Some(request) == limit)
            })
        };
        match (all.iter().any(|r| asks(*r)), all.iter().all(|r| is_full(*r))) {
            (false, _) => Self::BestEffort,
            (true, true) => Self::Guaranteed,
            (true, false) => Self::Burstable,
        }
    }
}
