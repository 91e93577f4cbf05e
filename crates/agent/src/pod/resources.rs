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
        let (of_pod_requests, of_pod_limits) = (of_pod(spec, requests_of), of_pod(spec, limits_of));
        let is_positive =
            |list: &Amounts, name: &str| list.get(name).copied().is_some_and(|amount| amount > 0);
        let is_limited = |name: &&str| {
            is_positive(&of_pod_limits, name)
                || all(spec).all(|container| is_positive(&limits(container), name))
        };
        let limited = [CPU, MEMORY].into_iter().filter(is_limited).collect();
        let (mut requests, mut limits) = (total(spec, requests), total(spec, limits));
        // What the pod asks for as a whole counts in place of the sum.
        requests.extend(of_pod_requests);
        limits.extend(of_pod_limits);
        Self { class: qos_class(spec), requests, limits, overhead: amounts(spec.overhead.as_ref()), limited }
    }

    /// Thousandths of a CPU that its cgroup is limited to; `None` if it is not.
    pub(crate) fn cpu_limit(&self) -> Option<u64> {
        Some(self.limit(CPU)).filter(|_| self.limited.contains(&CPU))
    }

    /// Bytes of memory that its cgroup is limited to; `None` if it is not.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        Some(self.limit(MEMORY)).filter(|_| self.limited.contains(&MEMORY))
    }

    /// Everything that it requests, with the overhead.
    pub(crate) fn all_requests(&self) -> BTreeMap<String, u64> {
        let mut all = self.requests.clone();
        add(&mut all, &self.overhead);
        all
    }

    /// Its limits, with the overhead, whether they are enforced or not.
    pub(crate) fn all_limits(&self) -> BTreeMap<String, u64> {
        let named = self.limits.keys().map(|name| (name.clone(), self.limit(name)));
        named.collect()
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

/// The QoS class of a pod: by what it asks for as a whole, if it does, else by its containers.
pub(crate) fn qos_class(spec: &PodSpec) -> QosClass {
    let of_pod = pod_level(spec);
    let all: Vec<Option<&ResourceRequirements>> = match of_pod {
        Some(_) => vec![of_pod],
        None => all(spec).map(|container| container.resources.as_ref()).collect(),
    };
    let amount = |list: &Amounts, name: &str| list.get(name).copied().filter(|amount| *amount > 0);
    let names = [CPU, MEMORY];
    let asks = |one: &Option<&ResourceRequirements>| {
        names.iter().any(|name| amount(&requests_of(*one), name).is_some())
    };
    let is_full = |one: &Option<&ResourceRequirements>| {
        names.iter().all(|name| {
            let limit = amount(&limits_of(*one), name);
            limit.is_some() && amount(&requests_of(*one), name) == limit
        })
    };
    match (all.iter().any(asks), all.iter().all(is_full)) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

/// Whether a pod as a whole can ask for this resource.
fn is_pod_level(name: &str) -> bool {
    [CPU, MEMORY].contains(&name) || name.starts_with(HUGE_PAGES)
}

/// What the pod asks for as a whole; `None` if it asks for nothing.
pub(crate) fn pod_level(spec: &PodSpec) -> Option<&ResourceRequirements> {
    let asks = |found: &&ResourceRequirements| {
        found.requests.iter().chain(&found.limits).flatten().any(|(name, _)| is_pod_level(name))
    };
    spec.resources.as_ref().filter(asks)
}

/// Bytes of memory that the containers of a pod request together.
pub(crate) fn memory_of_containers(spec: &PodSpec) -> u64 {
    total(spec, requests).get(MEMORY).copied().unwrap_or(0)
}

/// The amounts that the pod asks for as a whole.
fn of_pod(spec: &PodSpec, of: impl Fn(Option<&ResourceRequirements>) -> Amounts) -> Amounts {
    let mut found = of(pod_level(spec));
    found.retain(|name, _| is_pod_level(name));
    found
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

fn requests(container: &Container) -> Amounts {
    requests_of(container.resources.as_ref())
}

fn limits(container: &Container) -> Amounts {
    limits_of(container.resources.as_ref())
}

/// What is requested; what is limited and not requested is requested, as the API server defaults it.
fn requests_of(found: Option<&ResourceRequirements>) -> Amounts {
    let mut all = limits_of(found);
    all.extend(amounts(found.and_then(|found| found.requests.as_ref())));
    all
}

fn limits_of(found: Option<&ResourceRequirements>) -> Amounts {
    amounts(found.and_then(|found| found.limits.as_ref()))
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

    /// What the pod as a whole asks for; two containers, one without anything of its own.
    fn as_a_whole(resources: &str) -> PodSpec {
        pod(&format!(
            r#"{{"resources":{resources},"containers":[{{"name":"a"}},
            {{"name":"b","resources":{{"requests":{{"cpu":"100m","memory":"8Mi"}}}}}}]}}"#
        ))
    }

    #[test]
    fn what_the_pod_asks_for_as_a_whole_counts_in_place_of_the_sum() {
        let spec = as_a_whole(r#"{"requests":{"cpu":"250m"},"limits":{"cpu":"500m","memory":"64Mi"}}"#);
        let found = PodResources::of(&spec);
        let limits = found.cgroup(CPU_LIMITS, None, &[]);
        assert_eq!((found.class, limits.cpu_shares), (QosClass::Burstable, Some(256)));
        assert_eq!((limits.cpu_quota, limits.memory), (Some(50_000), Some(64 << 20)));
        assert_eq!((found.cpu_limit(), found.memory_limit()), (Some(500), Some(64 << 20)));
        assert_eq!(found.all_requests()["memory"], 64 << 20, "what is limited and not requested");
        let only_requests = PodResources::of(&as_a_whole(r#"{"requests":{"cpu":"1"}}"#));
        assert_eq!((only_requests.cpu_request(), only_requests.cpu_limit()), (1000, None));
        assert_eq!(only_requests.all_requests()["memory"], 8 << 20, "of its containers");
        let nothing = PodResources::of(&as_a_whole(r#"{"requests":{}}"#));
        assert_eq!((nothing.class, nothing.cpu_request()), (QosClass::Burstable, 100));
    }

    #[test]
    fn a_pod_is_of_the_class_that_it_asks_for_as_a_whole() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let table = [
            (r#"{"limits":{"cpu":"1","memory":"1Gi"}}"#, Guaranteed),
            (r#"{"limits":{"cpu":"1"}}"#, Burstable),
            (r#"{"requests":{"hugepages-2Mi":"4Mi"},"limits":{"hugepages-2Mi":"4Mi"}}"#, BestEffort),
            ("{}", Burstable),
        ];
        for (resources, class) in table {
            assert_eq!(qos_class(&as_a_whole(resources)), class, "{resources}");
        }
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
