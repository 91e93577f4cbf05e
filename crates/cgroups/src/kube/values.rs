//! Values of the cgroups of pods, computed as the kubelet does.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::QosClass;
use crate::resources::Resources;

/// The CFS period that a kubelet has by default, in microseconds.
pub const QUOTA_PERIOD: u64 = 100_000;
/// The kernel's smallest value of `cpu.shares`, which pods of class BestEffort have.
pub const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;
const MIN_QUOTA: i64 = 1_000;
const MIN_WEIGHT: u64 = 1;
const MAX_WEIGHT: u64 = 10_000;

/// `oom_score_adj` of pods of class Guaranteed, and of pods that the node needs.
const GUARANTEED_OOM_SCORE: i64 = -997;
const BEST_EFFORT_OOM_SCORE: i64 = 1000;
/// `oom_score_adj` of containers of class Burstable: above every container of class Guaranteed, below every one of class
/// BestEffort.
pub const BURSTABLE_OOM_SCORES: RangeInclusive<i64> = 3..=999;

/// CPU shares for a request in thousandths of a CPU.
#[must_use]
pub fn cpu_shares(millis: u64) -> u64 {
    (u128::from(millis) * 1024 / 1000).try_into().unwrap_or(MAX_SHARES).clamp(MIN_SHARES, MAX_SHARES)
}

/// The CFS quota for a limit in thousandths of a CPU, in microseconds of each `period`; `None` for no limit.
#[must_use]
pub fn cpu_quota(millis: u64, period: u64) -> Option<i64> {
    let quota = u128::from(millis) * u128::from(period) / 1000;
    (millis > 0).then(|| i64::try_from(quota).unwrap_or(i64::MAX).max(MIN_QUOTA))
}

/// `cpu.weight` of cgroup v2 for CPU shares, on the kubelet's straight line. OCI runtimes convert the shares of containers on
/// another curve.
#[must_use]
pub fn cpu_weight(shares: u64) -> u64 {
    let shares = shares.clamp(MIN_SHARES, MAX_SHARES);
    MIN_WEIGHT + (shares - MIN_SHARES) * (MAX_WEIGHT - MIN_WEIGHT) / (MAX_SHARES - MIN_SHARES)
}

/// The CPU shares that a `cpu.weight` of cgroup v2 stands for: the smallest of those with that weight, or nearly.
#[must_use]
pub(super) fn cpu_shares_of(weight: u64) -> u64 {
    let weight = weight.clamp(MIN_WEIGHT, MAX_WEIGHT);
    MIN_SHARES + (weight - MIN_WEIGHT) * (MAX_SHARES - MIN_SHARES) / (MAX_WEIGHT - MIN_WEIGHT)
}

/// `oom_score_adj` of a container that requests `request` bytes of the `capacity` bytes of memory that the node has. The
/// larger its request, the later the kernel kills it.
#[must_use]
pub fn oom_score_adj(class: QosClass, request: u64, capacity: u64) -> i64 {
    match class {
        QosClass::Guaranteed => GUARANTEED_OOM_SCORE,
        QosClass::BestEffort => BEST_EFFORT_OOM_SCORE,
        QosClass::Burstable => {
            let part = u128::from(request) * 1000 / u128::from(capacity.max(1));
            let score = 1000 - i64::try_from(part).unwrap_or(i64::MAX);
            score.clamp(*BURSTABLE_OOM_SCORES.start(), *BURSTABLE_OOM_SCORES.end())
        }
    }
}

/// What all pods of a node may use together: the node's capacity without its reservations. Eviction thresholds are not
/// part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// Thousandths of a CPU.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Processes and threads; `None` if the kernel's limit is not known.
    pub pids: Option<u64>,
    /// Bytes of huge pages, by page size as the kernel names it (`2MB`).
    pub hugepages: BTreeMap<String, u64>,
}

impl NodeLimits {
    /// The limits of `kubepods`.
    #[must_use]
    pub fn resources(&self) -> Resources {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Resources {
            cpu_shares: Some(cpu_shares(self.cpu_millis)),
            memory: Some(signed(self.memory)),
            pids: self.pids.map(signed),
            hugepages: self.hugepages.clone(),
            ..Resources::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_request_within_the_kernels_range() {
        let table =
            [(0, 2), (1, 2), (2, 2), (3, 3), (100, 102), (1000, 1024), (1500, 1536), (256_000, 262_144)];
        for (millis, shares) in table {
            assert_eq!(cpu_shares(millis), shares, "{millis}m");
        }
        assert_eq!(cpu_shares(u64::MAX), 262_144);
    }

    #[test]
    fn a_quota_is_part_of_the_period_and_at_least_a_millisecond() {
        let table = [(0, None), (1, Some(1000)), (10, Some(1000)), (11, Some(1100)), (2500, Some(250_000))];
        for (millis, quota) in table {
            assert_eq!(cpu_quota(millis, QUOTA_PERIOD), quota, "{millis}m");
        }
        assert_eq!(cpu_quota(500, 10_000), Some(5_000));
        assert_eq!(cpu_quota(u64::MAX, QUOTA_PERIOD), Some(i64::MAX));
    }

    #[test]
    fn weights_lie_on_the_kubelets_line() {
        let table = [(0, 1), (2, 1), (102, 4), (1024, 39), (2048, 79), (262_144, 10_000), (u64::MAX, 10_000)];
        for (shares, weight) in table {
            assert_eq!(cpu_weight(shares), weight, "{shares}");
        }
    }

    #[test]
    fn the_kernel_kills_containers_in_the_order_of_their_classes_and_requests() {
        const GI: u64 = 1 << 30;
        let table = [
            (QosClass::Guaranteed, GI, -997),
            (QosClass::BestEffort, 0, 1000),
            (QosClass::Burstable, 0, 999),
            (QosClass::Burstable, GI / 50, 998),
            (QosClass::Burstable, 4 * GI, 500),
            (QosClass::Burstable, 8 * GI, 3),
            (QosClass::Burstable, 80 * GI, 3),
        ];
        for (class, request, score) in table {
            assert_eq!(oom_score_adj(class, request, 8 * GI), score, "{class:?} {request}");
        }
        assert_eq!(oom_score_adj(QosClass::Burstable, 1, 0), 3);
    }

    #[test]
    fn kubepods_is_limited_to_what_pods_may_use() {
        let limits = NodeLimits {
            cpu_millis: 3850,
            memory: 6 << 30,
            pids: Some(32_000),
            hugepages: BTreeMap::from([("2MB".to_owned(), 4 << 20)]),
        };
        let expected = Resources {
            cpu_shares: Some(3942),
            memory: Some(6 << 30),
            pids: Some(32_000),
            hugepages: limits.hugepages.clone(),
            ..Resources::default()
        };
        assert_eq!(limits.resources(), expected);
        assert_eq!(NodeLimits { pids: None, ..limits }.resources().pids, None);
    }
}
