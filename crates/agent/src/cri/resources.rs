//! Resource limits of a container, in the kernel's units.

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

pub(crate) fn of(spec: &PodSpec, container: &Container) -> LinuxContainerResources {
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
        hugepage_limits: huge_pages(found),
        ..LinuxContainerResources::default()
    }
}

fn huge_pages(found: Option<&ResourceRequirements>) -> Vec<HugepageLimit> {
    let limits = found.and_then(|r| r.limits.as_ref()).into_iter().flatten();
    let sized = limits.filter_map(|(name, q)| Some((name.strip_prefix("hugepages-")?, q)));
    let one = |(size, q): (&str, _)| HugepageLimit {
        // The kernel names its cgroup files with KB, MB and GB: hugetlb.2MB.
        page_size: size.replace("Ki", "KB").replace("Mi", "MB").replace("Gi", "GB"),
        limit: u64::try_from(quantity(q).units()).unwrap_or(0),
    };
    sized.map(one).collect()
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
    fn quality_is_what_kubernetes_calls_it() {
        let of = |text| Quality::of(&pod(text));
        assert_eq!(of("{}"), Quality::BestEffort);
        assert_eq!(of(r#"{"requests":{"cpu":"1"}}"#), Quality::Burstable);
        assert_eq!(of(r#"{"limits":{"cpu":"1","memory":"1Gi"}}"#), Quality::Guaranteed);
        let less = r#"{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi"}}"#;
        assert_eq!(of(less), Quality::Burstable);
    }
}
