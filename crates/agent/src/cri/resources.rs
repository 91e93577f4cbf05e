//! Resource limits of a container, in the kernel's units.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use cgroups::QosClass;
use cgroups::kube::{cpu_quota, cpu_shares, oom_score_adj};
use cri::{HugepageLimit, LinuxContainerResources};
use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use types::Quantity;

use crate::pod::context::PodContext;
use crate::pod::fields::{memory, quantity};
use crate::pod::parent::{CpuLimits, OomKill};
use crate::pod::resources::{memory_of_containers, page_size as resource_page_size, pod_level, qos_class};

/// The priority class of pods that the node needs.
const NODE_CRITICAL: &str = "system-node-critical";

fn amount(found: Option<&ResourceRequirements>, list: &str, name: &str) -> Option<Quantity> {
    let found = found?;
    let list = if list == "limits" { &found.limits } else { &found.requests };
    list.as_ref()?.get(name).map(quantity).filter(|n| *n > Quantity::ZERO)
}

/// The container's oom_score_adj, as in the kubelet. Pods that the node needs are killed as late as those of class
/// Guaranteed. A sidecar is killed no earlier than any regular container. What the pod requests as a whole beyond its
/// containers counts for each of them in equal parts.
fn oom_score(spec: &PodSpec, container: &Container, capacity: u64) -> i64 {
    let class = match spec.priority_class_name.as_deref() {
        Some(NODE_CRITICAL) => QosClass::Guaranteed,
        _ => qos_class(spec),
    };
    let request = |found: Option<&ResourceRequirements>| {
        let request = amount(found, "requests", "memory").or(amount(found, "limits", "memory"));
        u64::try_from(request.unwrap_or_default().units()).unwrap_or(0)
    };
    let share = remainder_of_each(spec, request);
    let score = |container: &Container| {
        oom_score_adj(class, request(container.resources.as_ref()).saturating_add(share), capacity)
    };
    let is_sidecar = container.restart_policy.as_deref() == Some("Always")
        && spec.init_containers.iter().flatten().any(|init| init.name == container.name);
    let regular = spec.containers.iter().filter(|_| is_sidecar).map(score).max();
    regular.map_or_else(|| score(container), |highest| score(container).min(highest))
}

/// The part of each container in the memory that the pod requests as a whole and that its containers do not request.
fn remainder_of_each(spec: &PodSpec, request: impl Fn(Option<&ResourceRequirements>) -> u64) -> u64 {
    let asks = |found: &&ResourceRequirements| found.requests.iter().flatten().next().is_some();
    let of_pod = pod_level(spec).filter(asks).map_or(0, |found| request(Some(found)));
    let count = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
    of_pod.saturating_sub(memory_of_containers(spec)) / count
}

/// The control groups of this node, as far as the limits of memory depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemoryGroups {
    /// Version 1, without or with a limit of memory and swap together.
    Version1 { limits_swap: bool },
    /// Version 2, without or with a limit of swap.
    Version2 { limits_swap: bool },
    /// Version 2 without the memory controller.
    Unlimited,
}

static GROUPS: LazyLock<MemoryGroups> = LazyLock::new(|| {
    let root = Path::new("/sys/fs/cgroup");
    let Ok(controllers) = std::fs::read_to_string(root.join("cgroup.controllers")) else {
        return MemoryGroups::Version1 {
            limits_swap: root.join("memory/memory.memsw.limit_in_bytes").exists(),
        };
    };
    if !controllers.split_whitespace().any(|name| name == "memory") {
        return MemoryGroups::Unlimited;
    }
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.trim().strip_prefix("0::/").unwrap_or_default();
    MemoryGroups::Version2 { limits_swap: root.join(own).join("memory.swap.max").exists() }
});

impl MemoryGroups {
    /// Keeps a container from swapping, and takes back protection of its memory, as a kubelet does by default.
    /// Sets what the kernel kills, too, where that can be chosen.
    fn apply(self, resources: &mut LinuxContainerResources, oom_kill: OomKill) {
        match self {
            Self::Version1 { limits_swap: true } => {
                resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
            }
            Self::Version1 { limits_swap: false } | Self::Unlimited => {}
            Self::Version2 { limits_swap } => {
                let swap = limits_swap.then_some("memory.swap.max");
                let files = ["memory.low", "memory.min"].into_iter().chain(swap);
                resources.unified.extend(files.map(|file| (file.to_owned(), "0".to_owned())));
                if oom_kill == OomKill::Container {
                    resources.unified.insert("memory.oom.group".to_owned(), "1".to_owned());
                }
            }
        }
    }
}

pub(crate) fn of(context: &PodContext, container: &Container) -> LinuxContainerResources {
    let mut resources = limits(&context.spec, container, context.cpu_limits());
    GROUPS.apply(&mut resources, context.oom_kill);
    resources
}

fn limits(spec: &PodSpec, container: &Container, cpu: CpuLimits) -> LinuxContainerResources {
    let found = container.resources.as_ref();
    // A container without a limit of its own may use what the pod as a whole may.
    let limit = |name| amount(found, "limits", name).or_else(|| amount(pod_level(spec), "limits", name));
    let is_requested =
        |name: &str| found.and_then(|r| r.requests.as_ref()).is_some_and(|r| r.contains_key(name));
    let request =
        |name| amount(found, "requests", name).or_else(|| limit(name).filter(|_| !is_requested(name)));
    let millis =
        |amount: Option<Quantity>| u64::try_from(amount.map_or(0, Quantity::thousandths)).unwrap_or(0);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let period = match cpu {
        CpuLimits::Quota { period } => period,
        CpuLimits::Unenforced => 0,
    };
    LinuxContainerResources {
        cpu_period: signed(period),
        cpu_quota: cpu_quota(millis(limit("cpu")), period).filter(|_| period > 0).unwrap_or(0),
        cpu_shares: signed(cpu_shares(millis(request("cpu")))),
        memory_limit_in_bytes: limit("memory").map_or(0, Quantity::units),
        oom_score_adj: oom_score(spec, container, memory().unwrap_or(u64::MAX)),
        hugepage_limits: huge_pages(&PAGE_SIZES, [pod_level(spec), found]),
        ..LinuxContainerResources::default()
    }
}

/// The sizes of huge pages that this kernel has, as its cgroup files are named: `2MB`.
pub(crate) static PAGE_SIZES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let entries = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut kilobytes: Vec<u64> = names.filter_map(|name| kilobytes(&name)).collect();
    kilobytes.sort_unstable();
    kilobytes.into_iter().map(page_size).collect()
});

/// The number in `hugepages-2048kB`.
fn kilobytes(name: &str) -> Option<u64> {
    name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()
}

fn page_size(kilobytes: u64) -> String {
    match kilobytes {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{}GB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{}MB", n >> 10),
        n => format!("{n}KB"),
    }
}

/// The limit for each size of huge pages that the kernel has: that of the pod as a whole unless the container names one, and
/// none of the sizes that neither names.
fn huge_pages(sizes: &[String], found: [Option<&ResourceRequirements>; 2]) -> Vec<HugepageLimit> {
    let limits = found.into_iter().flatten().filter_map(|r| r.limits.as_ref()).flatten();
    let named: BTreeMap<String, u64> = limits
        .filter_map(|(name, q)| {
            Some((resource_page_size(name)?, u64::try_from(quantity(q).units()).unwrap_or(0)))
        })
        .collect();
    let one = |size: &String| HugepageLimit {
        page_size: size.clone(),
        limit: named.get(size).copied().unwrap_or(0),
    };
    sizes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: &str) -> PodSpec {
        let text = format!(r#"{{"containers":[{{"name":"a","resources":{resources}}}]}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn numbers(resources: &str) -> (i64, i64, i64, i64) {
        let spec = pod(resources);
        let r = super::limits(&spec, &spec.containers[0], CpuLimits::DEFAULT);
        (r.cpu_shares, r.cpu_quota, r.memory_limit_in_bytes, r.oom_score_adj)
    }

    #[test]
    fn limits_and_requests_become_the_kernels_numbers() {
        let guaranteed = r#"{"limits":{"cpu":"500m","memory":"64Mi"}}"#;
        assert_eq!(numbers(guaranteed), (512, 50_000, 64 << 20, -997));
        assert_eq!(numbers("{}"), (2, 0, 0, 1000));
        assert_eq!(numbers(r#"{"limits":{"cpu":"1m"}}"#).1, 1_000);
        assert_eq!(numbers(r#"{"requests":{"cpu":"2"}}"#).0, 2048);
    }

    #[test]
    fn a_container_without_limits_has_those_of_its_pod_as_a_whole() {
        let text = r#"{"resources":{"requests":{"cpu":"1","memory":"4Gi"},"limits":{"cpu":"2","memory":"4Gi","hugepages-2Mi":"4Mi"}},
            "containers":[{"name":"a"},
            {"name":"b","resources":{"requests":{"cpu":"0","memory":"1Gi"},"limits":{"memory":"2Gi","hugepages-2Mi":"2Mi"}}}]}"#;
        let spec: PodSpec = serde_json::from_str(text).unwrap();
        let of = |index: usize| {
            let found = super::limits(&spec, &spec.containers[index], CpuLimits::DEFAULT);
            (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes)
        };
        assert_eq!(of(0), (2048, 200_000, 4 << 30));
        assert_eq!(of(1), (2, 200_000, 2 << 30), "it requests no CPU by name");
        let sizes = ["2MB".to_owned()];
        let pages = |index: usize| {
            huge_pages(&sizes, [pod_level(&spec), spec.containers[index].resources.as_ref()])[0].limit
        };
        assert_eq!((pages(0), pages(1)), (4 << 20, 2 << 20));
        // 3 GiB are requested by none: half of them for each.
        let scores: Vec<i64> = spec.containers.iter().map(|c| oom_score(&spec, c, 8 << 30)).collect();
        assert_eq!(scores, [1000 - 187, 1000 - 312]);
    }

    /// On a node with swap, containers without a memory limit swapped.
    #[test]
    fn a_container_does_not_swap() {
        let of = |groups: MemoryGroups| {
            let mut resources = LinuxContainerResources { memory_limit_in_bytes: 5, ..Default::default() };
            groups.apply(&mut resources, OomKill::Process);
            let files: Vec<String> = resources.unified.into_iter().map(|(k, v)| format!("{k}={v}")).collect();
            (resources.memory_swap_limit_in_bytes, files.join(" "))
        };
        assert_eq!(of(MemoryGroups::Version1 { limits_swap: true }), (5, String::new()));
        assert_eq!(of(MemoryGroups::Version1 { limits_swap: false }), (0, String::new()));
        let all = "memory.low=0 memory.min=0 memory.swap.max=0";
        assert_eq!(of(MemoryGroups::Version2 { limits_swap: true }), (0, all.to_owned()));
        assert_eq!(
            of(MemoryGroups::Version2 { limits_swap: false }),
            (0, "memory.low=0 memory.min=0".to_owned())
        );
    }

    #[test]
    fn all_processes_of_a_container_are_killed_at_once_where_that_can_be_chosen() {
        let of = |groups: MemoryGroups, oom_kill: OomKill| {
            let mut resources = LinuxContainerResources::default();
            groups.apply(&mut resources, oom_kill);
            resources.unified.get("memory.oom.group").cloned()
        };
        let second = MemoryGroups::Version2 { limits_swap: false };
        assert_eq!(of(second, OomKill::Container).as_deref(), Some("1"));
        assert_eq!(of(second, OomKill::Process), None);
        assert_eq!(of(MemoryGroups::Version1 { limits_swap: false }, OomKill::Container), None);
    }

    /// They were unlimited: a container could take the huge pages that others were promised.
    #[test]
    fn huge_pages_that_a_container_does_not_name_are_limited_to_none() {
        let spec = pod(r#"{"limits":{"hugepages-2Mi":"4Mi"}}"#);
        let sizes = ["hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB"];
        let sizes: Vec<String> = sizes.iter().filter_map(|n| kilobytes(n)).map(page_size).collect();
        let limits = huge_pages(&sizes, [None, spec.containers[0].resources.as_ref()]);
        let limits: Vec<_> = limits.iter().map(|l| (l.page_size.as_str(), l.limit)).collect();
        assert_eq!(limits, [("2MB", 4 << 20), ("1GB", 0), ("64KB", 0)]);
    }

    #[test]
    fn a_sidecar_and_a_pod_that_the_node_needs_are_killed_late() {
        const GI: u64 = 1 << 30;
        let container = |name: &str, memory: &str, more: &str| {
            format!(r#"{{"name":"{name}","resources":{{"requests":{{"memory":"{memory}"}}}}{more}}}"#)
        };
        let always = r#","restartPolicy":"Always""#;
        let text = format!(
            r#"{{"initContainers":[{},{},{}],"containers":[{},{}]}}"#,
            container("small", "0", always),
            container("large", "4Gi", always),
            container("init", "0", ""),
            container("a", "2Gi", ""),
            container("b", "3Gi", ""),
        );
        let mut spec: PodSpec = serde_json::from_str(&text).unwrap();
        let scores = |spec: &PodSpec| -> Vec<i64> {
            let all = spec.init_containers.iter().flatten().chain(&spec.containers);
            all.map(|container| oom_score(spec, container, 8 * GI)).collect()
        };
        assert_eq!(scores(&spec), [750, 500, 999, 750, 625]);
        spec.priority_class_name = Some("system-node-critical".to_owned());
        assert_eq!(scores(&spec), [-997; 5]);
    }

    #[test]
    fn limits_of_cpu_are_left_out_where_they_are_not_enforced() {
        let spec = pod(r#"{"limits":{"cpu":"500m","memory":"64Mi"}}"#);
        let of = |cpu| {
            let found = super::limits(&spec, &spec.containers[0], cpu);
            (found.cpu_shares, found.cpu_quota, found.cpu_period)
        };
        assert_eq!(of(CpuLimits::Quota { period: 10_000 }), (512, 5_000, 10_000));
        assert_eq!(of(CpuLimits::Unenforced), (512, 0, 0));
    }
}
