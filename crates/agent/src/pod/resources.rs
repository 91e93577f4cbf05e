//! What a pod asks for as a whole: its QoS class, its requests and limits, and the limits of its cgroup.

use std::collections::BTreeMap;

use cgroups::kube::{MIN_SHARES, cpu_quota, cpu_shares};
use cgroups::{QosClass, Resources};
use cri::LinuxContainerResources;
use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use manifest::k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

use crate::pod::fields::quantity;
use crate::pod::parent::CpuLimits;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const HUGE_PAGES: &str = "hugepages-";

/// Amounts by the name of the resource: thousandths of a CPU, and units of the rest.
type Amounts = BTreeMap<String, u64>;

/// What a pod asks for as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodResources {
    pub(crate) class: QosClass,
    /// Without the overhead.
    requests: Amounts,
    /// Without the overhead.
    limits: Amounts,
    /// What the sandbox itself needs, by the pod's runtime class.
    overhead: Amounts,
    /// Resources that every container has a limit of.
    limited: Vec<&'static str>,
}

impl PodResources {
    pub(crate) fn of(spec: &PodSpec) -> Self {
        let has =
            |container: &Container, name: &str| limits(container).get(name).is_some_and(|limit| *limit > 0);
        let is_limited = |name: &&str| all(spec).all(|container| has(container, name));
        Self {
            class: qos_class(spec),
            requests: total(spec, requests),
            limits: total(spec, limits),
            overhead: amounts(spec.overhead.as_ref()),
            limited: [CPU, MEMORY].into_iter().filter(is_limited).collect(),
        }
    }

    /// Thousandths of a CPU that it requests.
    pub(crate) fn cpu_request(&self) -> u64 {
        self.request(CPU)
    }

    fn request(&self, name: &str) -> u64 {
        let of = |list: &Amounts| list.get(name).copied().unwrap_or(0);
        of(&self.requests).saturating_add(of(&self.overhead))
    }

    /// The limit with the overhead; 0 if there is none.
    fn limit(&self, name: &str) -> u64 {
        let overhead = self.overhead.get(name).copied().unwrap_or(0);
        match self.limits.get(name) {
            Some(limit) if *limit > 0 => limit.saturating_add(overhead),
            _ => 0,
        }
    }

    /// The limits of the pod's cgroup. Of CPU and memory it has one only if every container has one: a container without a
    /// limit may use what the node has. Huge pages of sizes that it does not request are limited to none.
    pub(crate) fn cgroup(&self, cpu: CpuLimits, pids: Option<u64>, page_sizes: &[String]) -> Resources {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let pages = self.requests.iter().filter_map(|(name, amount)| Some((page_size(name)?, *amount)));
        let pages: BTreeMap<String, u64> = pages.collect();
        let hugepages = page_sizes.iter().map(|size| (size.clone(), pages.get(size).copied().unwrap_or(0)));
        let mut limits = Resources {
            cpu_shares: Some(MIN_SHARES),
            pids: pids.map(signed),
            hugepages: hugepages.collect(),
            ..Resources::default()
        };
        if self.class == QosClass::BestEffort {
            return limits;
        }
        limits.cpu_shares = Some(cpu_shares(self.cpu_request()));
        if self.limited.contains(&CPU) {
            let quota = cpu.period().and_then(|period| Some((cpu_quota(self.limit(CPU), period)?, period)));
            limits.cpu_quota = Some(quota.map_or(-1, |(quota, _)| quota));
            limits.cpu_period = quota.map(|(_, period)| period);
        }
        if self.limited.contains(&MEMORY) {
            limits.memory = Some(signed(self.limit(MEMORY)));
        }
        limits
    }

    /// The resources of its containers together, for the sandbox.
    pub(crate) fn of_sandbox(&self, cpu: CpuLimits) -> LinuxContainerResources {
        linux(cpu, |list| match list {
            List::Requests => &self.requests,
            List::Limits => &self.limits,
        })
    }

    /// The resources of the sandbox itself.
    pub(crate) fn overhead(&self, cpu: CpuLimits) -> LinuxContainerResources {
        if self.overhead.is_empty() {
            return LinuxContainerResources::default();
        }
        linux(cpu, |_| &self.overhead)
    }
}

#[derive(Clone, Copy)]
enum List {
    Requests,
    Limits,
}

fn linux<'a>(cpu: CpuLimits, of: impl Fn(List) -> &'a Amounts) -> LinuxContainerResources {
    let amount = |list, name| of(list).get(name).copied().unwrap_or(0);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let quota = cpu.period().and_then(|period| cpu_quota(amount(List::Limits, CPU), period));
    LinuxContainerResources {
        cpu_shares: signed(cpu_shares(amount(List::Requests, CPU))),
        cpu_quota: quota.unwrap_or(0),
        cpu_period: signed(cpu.period().unwrap_or(0)),
        memory_limit_in_bytes: signed(amount(List::Limits, MEMORY)),
        ..LinuxContainerResources::default()
    }
}

/// The QoS class of a pod.
pub(crate) fn qos_class(spec: &PodSpec) -> QosClass {
    let amount = |list: &Amounts, name: &str| list.get(name).copied().filter(|amount| *amount > 0);
    let names = [CPU, MEMORY];
    let asks = |container: &Container| names.iter().any(|name| amount(&requests(container), name).is_some());
    let is_full = |container: &Container| {
        names.iter().all(|name| {
            let limit = amount(&limits(container), name);
            limit.is_some() && amount(&requests(container), name) == limit
        })
    };
    match (all(spec).any(asks), all(spec).all(is_full)) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

fn all(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// The sum over the regular containers and sidecars, or what one init container needs beside the sidecars before it, if
/// that is more.
fn total(spec: &PodSpec, of: impl Fn(&Container) -> Amounts) -> Amounts {
    let mut sum = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut sum, &of(container)));
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for init in spec.init_containers.iter().flatten() {
        let mut needed = of(init);
        if init.restart_policy.as_deref() == Some("Always") {
            add(&mut sum, &needed);
            add(&mut sidecars, &needed);
            needed.clone_from(&sidecars);
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut most, &needed);
    }
    raise(&mut sum, &most);
    sum
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = sum.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let most = most.entry(name.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

/// The requests of a container; what it limits and does not request is requested, as the API server defaults it.
fn requests(container: &Container) -> Amounts {
    let mut all = limits(container);
    all.extend(amounts(resources(container).and_then(|found| found.requests.as_ref())));
    all
}

fn limits(container: &Container) -> Amounts {
    amounts(resources(container).and_then(|found| found.limits.as_ref()))
}

fn resources(container: &Container) -> Option<&ResourceRequirements> {
    container.resources.as_ref()
}

fn amounts(list: Option<&BTreeMap<String, Written>>) -> Amounts {
    let amount = |name: &str, written: &Written| match name {
        CPU => quantity(written).thousandths(),
        _ => quantity(written).units(),
    };
    let all = list.into_iter().flatten();
    all.map(|(name, written)| (name.clone(), u64::try_from(amount(name, written)).unwrap_or(0))).collect()
}

/// The size of huge pages in the name of a resource, as the kernel's cgroup files have it: `2MB` of `hugepages-2Mi`.
pub(crate) fn page_size(resource: &str) -> Option<String> {
    let size = resource.strip_prefix(HUGE_PAGES)?;
    Some(size.replace("Ki", "KB").replace("Mi", "MB").replace("Gi", "GB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU_LIMITS: CpuLimits = CpuLimits::DEFAULT;

    fn pod(text: &str) -> PodSpec {
        serde_json::from_str(text).unwrap()
    }

    /// One container with these resources.
    fn one(resources: &str) -> PodSpec {
        pod(&format!(r#"{{"containers":[{{"name":"a","resources":{resources}}}]}}"#))
    }

    #[test]
    fn a_pod_is_of_the_class_that_kubernetes_gives_it() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let table = [
            ("{}", BestEffort),
            (r#"{"requests":{"cpu":"0"}}"#, BestEffort),
            (r#"{"limits":{"hugepages-2Mi":"4Mi"}}"#, BestEffort),
            (r#"{"requests":{"cpu":"1"}}"#, Burstable),
            (r#"{"limits":{"memory":"1Gi"}}"#, Burstable),
            (r#"{"limits":{"cpu":"1","memory":"1Gi"}}"#, Guaranteed),
            (r#"{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}"#, Guaranteed),
            (r#"{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi"}}"#, Burstable),
        ];
        for (resources, class) in table {
            assert_eq!(qos_class(&one(resources)), class, "{resources}");
        }
        let full = r#"{"limits":{"cpu":"1","memory":"1Gi"}}"#;
        let with_init = format!(
            r#"{{"initContainers":[{{"name":"i"}}],"containers":[{{"name":"a","resources":{full}}}]}}"#
        );
        assert_eq!(qos_class(&pod(&with_init)), Burstable);
    }

    #[test]
    fn the_cgroup_of_a_pod_has_the_kubelets_values() {
        let limits = |resources: &str| PodResources::of(&one(resources)).cgroup(CPU_LIMITS, None, &[]);
        let expected = Resources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            memory: Some(64 << 20),
            ..Resources::default()
        };
        assert_eq!(limits(r#"{"limits":{"cpu":"500m","memory":"64Mi"}}"#), expected);
        let shares = |number| Resources { cpu_shares: Some(number), ..Resources::default() };
        assert_eq!(limits("{}"), shares(2));
        assert_eq!(limits(r#"{"requests":{"cpu":"250m","memory":"64Mi"}}"#), shares(256));
        let memory = limits(r#"{"requests":{"cpu":"100m"},"limits":{"memory":"64Mi"}}"#);
        assert_eq!(memory, Resources { memory: Some(64 << 20), ..shares(102) });
    }

    /// A container without a limit would be limited by those of its neighbours.
    #[test]
    fn a_pod_is_limited_only_if_every_container_is() {
        let text = r#"{"initContainers":[{"name":"i","resources":{"limits":{"memory":"1Mi"}}}],
            "containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Mi"}}},
            {"name":"b","resources":{"limits":{"memory":"2Mi"}}}]}"#;
        let limits = PodResources::of(&pod(text)).cgroup(CPU_LIMITS, None, &[]);
        let expected = (Some(1024), None, Some(3 << 20));
        assert_eq!((limits.cpu_shares, limits.cpu_quota, limits.memory), expected);
    }

    #[test]
    fn init_containers_count_by_their_maximum_and_sidecars_always() {
        let container = |name: &str, cpu: &str, more: &str| {
            format!(r#"{{"name":"{name}","resources":{{"requests":{{"cpu":"{cpu}"}}}}{more}}}"#)
        };
        let sidecar = r#","restartPolicy":"Always""#;
        let spec = |init: &[String], regular: &[String]| {
            pod(&format!(r#"{{"initContainers":[{}],"containers":[{}]}}"#, init.join(","), regular.join(",")))
        };
        let request =
            |init: &[String], regular: &[String]| PodResources::of(&spec(init, regular)).cpu_request();
        let regular = [container("a", "100m", ""), container("b", "200m", "")];
        assert_eq!(request(&[container("i", "250m", "")], &regular), 300);
        assert_eq!(request(&[container("i", "350m", ""), container("j", "1m", "")], &regular), 350);
        assert_eq!(request(&[container("s", "50m", sidecar), container("i", "320m", "")], &regular), 370);
        assert_eq!(request(&[container("i", "320m", ""), container("s", "50m", sidecar)], &regular), 350);
    }

    #[test]
    fn overhead_is_added_to_requests_and_to_limits_that_there_are() {
        let with = |resources: &str| {
            let mut spec = one(resources);
            spec.overhead = serde_json::from_str(r#"{"cpu":"250m","memory":"16Mi"}"#).unwrap();
            PodResources::of(&spec)
        };
        let full = with(r#"{"limits":{"cpu":"1","memory":"64Mi"}}"#);
        let limits = full.cgroup(CPU_LIMITS, None, &[]);
        let expected = (Some(1280), Some(125_000), Some(80 << 20));
        assert_eq!((limits.cpu_shares, limits.cpu_quota, limits.memory), expected);
        let sandbox = full.of_sandbox(CPU_LIMITS);
        assert_eq!((sandbox.cpu_shares, sandbox.cpu_quota), (1024, 100_000));
        assert_eq!((sandbox.cpu_period, sandbox.memory_limit_in_bytes), (100_000, 64 << 20));
        let overhead = full.overhead(CPU_LIMITS);
        assert_eq!((overhead.cpu_shares, overhead.memory_limit_in_bytes), (256, 16 << 20));
        let half = with(r#"{"requests":{"cpu":"1"}}"#).cgroup(CPU_LIMITS, None, &[]);
        assert_eq!((half.cpu_shares, half.cpu_quota, half.memory), (Some(1280), None, None));
        assert_eq!(PodResources::of(&one("{}")).overhead(CPU_LIMITS), LinuxContainerResources::default());
    }

    #[test]
    fn processes_and_huge_pages_are_limited_and_cpu_where_it_is_enforced() {
        let resources =
            PodResources::of(&one(r#"{"limits":{"cpu":"1","memory":"64Mi","hugepages-2Mi":"4Mi"}}"#));
        let sizes = ["2MB", "1GB"].map(str::to_owned);
        let limits = resources.cgroup(CpuLimits::Unenforced, Some(100), &sizes);
        assert_eq!((limits.cpu_quota, limits.cpu_period, limits.pids), (Some(-1), None, Some(100)));
        let pages = [("1GB".to_owned(), 0), ("2MB".to_owned(), 4 << 20)];
        assert_eq!(limits.hugepages, pages.into());
        let sandbox = resources.of_sandbox(CpuLimits::Unenforced);
        assert_eq!((sandbox.cpu_quota, sandbox.cpu_period), (0, 0));
    }
}
