//! Resource limits of a container, in the kernel's units.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use cri::{HugepageLimit, LinuxContainerResources};
use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use types::Quantity;

use crate::pod::fields::{memory, quantity};

const PERIOD: i64 = 100_000;
const LEAST_QUOTA: i64 = 1_000;
const LEAST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;

/// The QoS class of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quality {
    /// Every container has limits for CPU and memory, and equal requests.
    Guaranteed,
    /// At least one container has a request or a limit.
    Burstable,
    /// No container has a request or a limit.
    BestEffort,
}

fn amount(found: Option<&ResourceRequirements>, list: &str, name: &str) -> Option<Quantity> {
    let found = found?;
    let list = if list == "limits" { &found.limits } else { &found.requests };
    list.as_ref()?.get(name).map(quantity).filter(|n| *n > Quantity::ZERO)
}

impl Quality {
    pub(crate) fn of(spec: &PodSpec) -> Self {
        let all =
            || spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| c.resources.as_ref());
        let names = ["cpu", "memory"];
        let asks = |r| names.iter().any(|n| amount(r, "limits", n).or(amount(r, "requests", n)).is_some());
        let full = |r| {
            names.iter().all(|n| {
                let limit = amount(r, "limits", n);
                limit.is_some() && amount(r, "requests", n).is_none_or(|request| Some(request) == limit)
            })
        };
        match (all().any(asks), all().all(full)) {
            (false, _) => Self::BestEffort,
            (true, true) => Self::Guaranteed,
            (true, false) => Self::Burstable,
        }
    }

    /// The oom_score_adj of a container with this memory request, as in the kubelet.
    fn oom_score(self, request: Option<Quantity>) -> i64 {
        match self {
            Self::Guaranteed => -997,
            Self::BestEffort => 1000,
            Self::Burstable => {
                let all = memory().and_then(|n| i64::try_from(n).ok()).unwrap_or(i64::MAX).max(1);
                let share =
                    i128::from(request.unwrap_or_default().units()).saturating_mul(1000) / i128::from(all);
                (1000 - i64::try_from(share).unwrap_or(1000)).clamp(3, 999)
            }
        }
    }
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
    fn apply(self, resources: &mut LinuxContainerResources) {
        match self {
            Self::Version1 { limits_swap: true } => {
                resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
            }
            Self::Version1 { limits_swap: false } | Self::Unlimited => {}
            Self::Version2 { limits_swap } => {
                let swap = limits_swap.then_some("memory.swap.max");
                let files = ["memory.low", "memory.min"].into_iter().chain(swap);
                resources.unified.extend(files.map(|file| (file.to_owned(), "0".to_owned())));
            }
        }
    }
}

pub(crate) fn of(spec: &PodSpec, container: &Container) -> LinuxContainerResources {
    let mut resources = limits(spec, container);
    GROUPS.apply(&mut resources);
    resources
}

/// The overhead of the pod's sandbox, which its RuntimeClass has put into the pod; `None` if there is none. It is requested and
/// limited alike.
pub(crate) fn overhead(spec: &PodSpec) -> Option<LinuxContainerResources> {
    let limits = spec.overhead.clone().filter(|overhead| !overhead.is_empty())?;
    let resources = Some(ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() });
    let found = self::limits(spec, &Container { resources, ..Container::default() });
    let LinuxContainerResources { cpu_period, cpu_quota, cpu_shares, memory_limit_in_bytes, .. } = found;
    Some(LinuxContainerResources {
        cpu_period,
        cpu_quota,
        cpu_shares,
        memory_limit_in_bytes,
        ..LinuxContainerResources::default()
    })
}

fn limits(spec: &PodSpec, container: &Container) -> LinuxContainerResources {
    let found = container.resources.as_ref();
    let limit = |name| amount(found, "limits", name);
    let request = |name| amount(found, "requests", name).or(limit(name));
    let shares = request("cpu").map_or(LEAST_SHARES, |n| n.thousandths().saturating_mul(1024) / 1000);
    let quota = limit("cpu").map_or(0, |n| (n.thousandths().saturating_mul(PERIOD) / 1000).max(LEAST_QUOTA));
    LinuxContainerResources {
        cpu_period: PERIOD,
        cpu_quota: quota,
        cpu_shares: shares.clamp(LEAST_SHARES, MOST_SHARES),
        memory_limit_in_bytes: limit("memory").map_or(0, Quantity::units),
        oom_score_adj: Quality::of(spec).oom_score(request("memory")),
        hugepage_limits: huge_pages(&SIZES, found),
        ..LinuxContainerResources::default()
    }
}

/// The sizes of huge pages that this kernel has, as its cgroup files are named: `2MB`.
static SIZES: LazyLock<Vec<String>> = LazyLock::new(|| {
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

/// The limit for each size of huge pages that the kernel has: none of those that the container does not name.
fn huge_pages(sizes: &[String], found: Option<&ResourceRequirements>) -> Vec<HugepageLimit> {
    let limits = found.and_then(|r| r.limits.as_ref()).into_iter().flatten();
    let named: BTreeMap<String, u64> = limits
        .filter_map(|(name, q)| Some((name.strip_prefix("hugepages-")?, q)))
        .map(|(size, q)| {
            let size = size.replace("Ki", "KB").replace("Mi", "MB").replace("Gi", "GB");
            (size, u64::try_from(quantity(q).units()).unwrap_or(0))
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
        let r = of(&spec, &spec.containers[0]);
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
    fn the_overhead_of_a_sandbox_is_requested_and_limited() {
        let mut spec = pod("{}");
        assert_eq!(overhead(&spec), None);
        spec.overhead = serde_json::from_str(r#"{"cpu":"250m","memory":"32Mi"}"#).unwrap();
        let found = overhead(&spec).unwrap();
        assert_eq!((found.cpu_shares, found.cpu_quota, found.cpu_period), (256, 25_000, 100_000));
        assert_eq!((found.memory_limit_in_bytes, found.oom_score_adj), (32 << 20, 0));
    }

    /// On a node with swap, containers without a memory limit swapped.
    #[test]
    fn a_container_does_not_swap() {
        let of = |groups: MemoryGroups| {
            let mut resources = LinuxContainerResources { memory_limit_in_bytes: 5, ..Default::default() };
            groups.apply(&mut resources);
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

    /// They were unlimited: a container could take the huge pages that others were promised.
    #[test]
    fn huge_pages_that_a_container_does_not_name_are_limited_to_none() {
        let spec = pod(r#"{"limits":{"hugepages-2Mi":"4Mi"}}"#);
        let sizes = ["hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB"];
        let sizes: Vec<String> = sizes.iter().filter_map(|n| kilobytes(n)).map(page_size).collect();
        let limits = huge_pages(&sizes, spec.containers[0].resources.as_ref());
        let limits: Vec<_> = limits.iter().map(|l| (l.page_size.as_str(), l.limit)).collect();
        assert_eq!(limits, [("2MB", 4 << 20), ("1GB", 0), ("64KB", 0)]);
    }

    #[test]
    fn quality_is_what_kubernetes_calls_it() {
        let of = |text| Quality::of(&pod(text));
        assert_eq!(of("{}"), Quality::BestEffort);
        assert_eq!(of(r#"{"requests":{"cpu":"1"}}"#), Quality::Burstable);
        assert_eq!(of(r#"{"limits":{"cpu":"1","memory":"1Gi"}}"#), Quality::Guaranteed);
        let less = r#"{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi"}}"#;
        assert_eq!(of(less), Quality::Burstable);
    }
}
